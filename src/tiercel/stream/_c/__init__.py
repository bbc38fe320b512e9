"""C code of fitted models: templates that are C themselves, and what fills them."""
