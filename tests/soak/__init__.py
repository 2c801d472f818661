"""A soak: processes, faults and an independent judge.

Workers call cached functions at random and write down what they see (`journal`). A conductor hurts the store and the
workers meanwhile (`conductor`, `faults`). Afterwards the `judge` reads the journals. It knows nothing of the library:
only what was promised. `mutants` take one rule out of the library each, and the judge must notice.

    make soak SOAK_ARGS="--seconds 600 --store cluster --seed 7"
"""
