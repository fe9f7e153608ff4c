"""The display of values in notebooks and pictures: shortened and escaped."""
