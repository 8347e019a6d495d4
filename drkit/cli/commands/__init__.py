"""What each command is called and takes: options and help. What it does is loaded when it runs."""
