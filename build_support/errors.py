"""The one way in which a build refuses to go on."""


class BuildError(SystemExit):
    """Ends the build with a single sentence that says what is wrong and how to fix it.

    It derives from SystemExit because Python prints such an exception as its message alone: a user
    who runs pip sees the sentence and no traceback.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(f"hygon_backend: {sentence}")
