"""Markup that a page must display, and never execute."""

PAYLOADS = (
    "<script>executed=1</script>",
    "<img src=x onerror=executed=1>",
    "<svg onload=executed=1></svg>",
    "<svg><script>executed=1</script></svg>",
    '"><script>executed=1</script>',
    "' onmouseover='executed=1",
    '" autofocus onfocus="executed=1',
    "<iframe srcdoc='<script>parent.executed=1</script>'></iframe>",
    '<a href="javascript:executed=1">click</a>',
    "javascript:executed=1",
    "</textarea><script>executed=1</script>",
    "</title><script>executed=1</script>",
    "<details open ontoggle=executed=1>",
    "<style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=javascript:executed=1'>",
    "<base href='https://evil.example/'>",
    "{{ 7 * 7 }}{% raw %}${executed=1}",
    "<button hx-get='/' hx-trigger='load' hx-on:click='executed=1'>b</button>",
    "<object data='data:text/html,<script>executed=1</script>'></object>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=executed=1&gt;'>",
)

GROUPS = tuple(PAYLOADS[start : start + 5] for start in range(0, len(PAYLOADS), 5))
"""Five at a time: each is in every place that shows a text, on a quarter of the pages."""
