"""What each command takes on its line, a module for each module of commands, which is imported only to run one."""
