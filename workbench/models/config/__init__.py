"""What a config.json says of its model, in the spellings that transformers' families use."""
