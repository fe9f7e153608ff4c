"""The display of values in notebooks and pictures. Displayed values are shortened and escaped."""
