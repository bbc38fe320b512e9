"""What `tiercel.stream.river` is made of; nothing here needs River to be loaded."""
