"""The hierarchy of errors; every text includes the remedy."""


class Error(Exception):
    """Base of all errors of Tallycast."""


class ConfigError(Error, ValueError):
    """Something was asked for that cannot be: a name, a rate, a shape, an address."""


class PublishError(Error):
    """Samples could not be published."""


class Full(PublishError):
    """There is no room for samples, and the publisher was configured to raise."""


class Closed(Error):
    """The publisher or subscriber was closed before."""


class ForkError(Error):
    """It was opened by the parent process; a forked child has to open its own."""


class ArchiveError(Error):
    """An archive cannot be read."""


class DamagedArchive(ArchiveError):
    """Requested samples were stored and can no longer be read."""


class DoctorError(Error):
    """A remedy could not be applied, measured or undone."""


class BridgeError(Error):
    """A bridge to another system cannot begin."""


class MissingPackage(Error, ImportError):
    """A package is needed that is not installed; the text names what to install."""

    @classmethod
    def of(cls, package: str, extra: str) -> "MissingPackage":
        """Returns the error for a package that belongs to an extra of this one."""
        return cls(f"{package} is not installed\ninstall it: pip install 'tallycast[{extra}]'")
