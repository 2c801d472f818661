"""What execnet runs in a worker that `preloaded` has forked. It sends the words of this file."""

if __name__ == "__channelexec__":
    from tests.support.collected import begin

    begin(channel)  # type: ignore[name-defined]  # noqa: F821 - execnet gives it
