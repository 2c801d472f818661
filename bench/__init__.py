"""What is measured and shown: `herd` is the story, `peers` the comparison, `micro` the speed."""
