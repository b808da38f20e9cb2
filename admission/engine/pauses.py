"""The pause of a long computation: it calls `pause()` often, and a caller that shares the event loop lets others run there
(controllers/turns.py)."""


def no_pause() -> None:
    """Goes on without a pause."""
