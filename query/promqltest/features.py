"""What a script may ask for that cannot be had here, by name; beside what the parser does not know."""

NATIVE_HISTOGRAMS = "native histograms"
START_TIMESTAMPS = "start timestamps"
