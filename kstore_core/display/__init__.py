"""The display of values in notebooks and pictures, where they are shortened and escaped."""
