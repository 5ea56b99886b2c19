"""How bundles get from one agent to the next."""
