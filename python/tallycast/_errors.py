"""The hierarchy of errors; every text includes the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Error(Exception):
    """Base of all errors of Tallycast.

    ==================  =========================================  ====================================================
    error               also a                                     raised for
    ==================  =========================================  ====================================================
    ConfigError         ValueError                                 a name, rate, shape, number, address that cannot be
    ArgumentError       ConfigError, TypeError                     an argument of another type
    UnknownChannel      ConfigError, KeyError                      a channel that a stream does not have
    UnknownPort         ConfigError, KeyError, AttributeError      an input or output that an app does not have
    NoSample            LookupError                                an input of an app without a sample so far
    UnknownParameter    ConfigError, KeyError                      a parameter that an app does not have
    PublishError                                                   times that go back, a sending agent that failed
    Full                PublishError                               no room, with on_full="error"
    Closed                                                         use after close
    ForkError                                                      use in a forked child
    ArchiveError                                                   an archive that cannot be read or exported
    NotStored           ArchiveError, KeyError                     a stream, run, epoch, channel that is not there
    MomentError         ArchiveError, ConfigError                  a time that is none, or has no zone
    DamagedArchive      ArchiveError                               stored samples that cannot be read
    CommandError                                                   the command tallycast missing, or failing
    FileError                                                      a file that cannot be read
    DoctorError                                                    a remedy that failed
    BridgeError                                                    a bridge that cannot begin
    SteeringError                                                  an app that cannot be steered or reached
    SteeringDenied      SteeringError                              a lease or kill switch that the app refused
    NotApplied          SteeringError                              a command that had no effect, for certain
    SteeringRefused     NotApplied                                 … because of a rule
    SteeringExpired     NotApplied                                 … because its validity had ended
    SteeringSuperseded  NotApplied                                 … because a later one took its place
    SteeringFailed      NotApplied                                 … because the app could not apply it
    SteeringUncertain   SteeringError                              a command that may have had an effect, or not
    MissingPackage      ImportError                                a package that is not installed
    ==================  =========================================  ====================================================
    """


class ConfigError(Error, ValueError):
    """Something was asked for that cannot be: a name, a rate, a shape, an address."""


class ArgumentError(ConfigError, TypeError):
    """An argument is of a type that means nothing here: a text for a number, a number for a name."""


class UnknownChannel(ConfigError, KeyError):
    """A stream has no channel of that name."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class UnknownPort(ConfigError, KeyError, AttributeError):
    """A cyclic app has no input or output of that name."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class UnknownParameter(ConfigError, KeyError):
    """An app has no parameter of that name."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class NoSample(Error, LookupError):
    """An input of a cyclic app has not had a sample yet."""


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


class NotStored(ArchiveError, KeyError):
    """An archive has no such stream, run, epoch or channel."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class MomentError(ArchiveError, ConfigError):
    """A time cannot be read, or has no time zone."""


class DamagedArchive(ArchiveError):
    """Requested samples were stored and can no longer be read."""


class CommandError(Error):
    """The command `tallycast`, which does the work, is not there or has failed."""


class FileError(Error):
    """A file cannot be read."""


class DoctorError(Error):
    """A remedy could not be applied, measured or undone."""


class BridgeError(Error):
    """A bridge to another system cannot begin."""


class SteeringError(Error):
    """An app cannot be steered, or the connection to it has ended."""


class SteeringDenied(SteeringError):
    """The app refused a lease or the turn of a kill switch."""


class NotApplied(SteeringError):
    """A command had no effect, for certain."""

    #: The command's id, as the app's log has it; empty if it was never sent.
    id: str = ""
    #: The parameter that it was to change.
    parameter: str = ""


class SteeringRefused(NotApplied):
    """A rule refused the command."""

    #: Name of the rule, such as ``range``: those of ``docs/protocol/steering.md``.
    rule: str = ""


class SteeringExpired(NotApplied):
    """The command's validity ended before a step of the app, or the command never arrived."""


class SteeringSuperseded(NotApplied):
    """A later command for the same parameter took the place of this one."""


class SteeringFailed(NotApplied):
    """The app could not apply the command."""

    #: The reason in the app's words.
    reason: str = ""


class SteeringUncertain(SteeringError):
    """A command may have had an effect, or not; it is not sent again. The value, or the app's log, tells."""

    #: The command's id, as the app's log has it.
    id: str = ""
    #: The parameter that it was to change.
    parameter: str = ""


class MissingPackage(Error, ImportError):
    """A package is needed that is not installed; the text names what to install."""

    @classmethod
    def of(cls, package: str, extra: str) -> MissingPackage:
        """Returns the error for a package that belongs to an extra of this one."""
        return cls(f"{package} is not installed\ninstall it: pip install 'tallycast[{extra}]'")


@contextmanager
def of_arguments() -> Iterator[None]:
    """Makes an `ArgumentError` of what Python raises for arguments of another type or size."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, Error):
            raise
        raise ArgumentError(f"an argument is not what it has to be: {error}") from error
