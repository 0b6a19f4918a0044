"""What each command of the command line does, a subject a module; imports neither torch nor textual."""
