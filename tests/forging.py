"""Changes of arrays in files, by whoever is not to be trusted."""


def at(place, value):
    """The array with another value at a place."""

    def forged(values):
        values = values.copy()
        values[place] = value
        return values

    return forged
