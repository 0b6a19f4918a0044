"""A server that speaks the OpenAI API, timed by its own clock where it tells and by the client's beside it."""
