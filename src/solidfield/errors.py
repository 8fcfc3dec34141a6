"""The one exception meant for people: what was wrong, where, and what to do.

The command line prints its message as a single line and exits with code 2; everything else is a defect and keeps its
traceback.
"""


class SolidError(Exception):
    """A mistake in what the user gave: a file, an option, a value. The message names it and the remedy.

    Parameters
    ----------
    message : str
        One line: the culprit, what is wrong with it, what to do.

    Examples
    --------
    >>> try:
    ...     raise SolidError("cell 0 is not a size; give one such as 1km")
    ... except SolidError as error:
    ...     print(error)
    cell 0 is not a size; give one such as 1km
    """
