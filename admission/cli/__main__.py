"""`python -m admission.cli`."""

from admission.cli.main import app

if __name__ == "__main__":
    app()
