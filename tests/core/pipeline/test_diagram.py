from ace.pipeline import Branch, Pipeline

from .sample_steps import CountWords, Do, FindTitle, PageContext, Read, variant


def test_the_drawing_shows_branch_nesting_boundary_and_lane() -> None:
    write = variant(Do, "Write", lane="skillbook")
    pipeline = Pipeline[PageContext](
        [
            Read(),
            Branch(Pipeline([FindTitle()]), CountWords()),
            variant(Do, "Reflect", boundary=True)(),
            write(),
            variant(Do, "Apply", lane="skillbook")(),
        ]
    )
    assert pipeline.to_mermaid() == (
        """\
flowchart LR
    start([start])
    s1["Read"]
    s2{"branch"}
    subgraph g3["nested Pipeline"]
        s4["FindTitle"]
    end
    s5["CountWords"]
    s6{"merge"}
    subgraph g7["background: the caller does not wait"]
        s8["Reflect"]
        subgraph g9["lane skillbook: one sample at a time, in input order"]
            s10["Write"]
            s11["Apply"]
        end
    end
    finish([end])
    start -->|sample| s1
    s1 -->|text| s2
    s2 -->|text| s4
    s2 -->|text| s5
    s4 -->|title| s6
    s5 -->|words| s6
    s6 -->|title, words| s8
    s8 --> s10
    s10 --> s11
    s11 --> finish"""
    )


def test_a_lane_may_have_any_name() -> None:
    pipeline = Pipeline([variant(Do, lane='the "good" book')()])
    assert 'subgraph g1["lane the #quot;good#quot; book: one' in pipeline.to_mermaid()


def test_repr_is_one_line() -> None:
    write = variant(Do, "Write", lane="skillbook")
    reflect = variant(Do, "Reflect", boundary=True)
    branch = Branch(Pipeline([FindTitle()]), CountWords())
    pipeline = Pipeline[PageContext]([Read(), branch, reflect(), write(), write()])
    assert repr(pipeline) == (
        "Pipeline(Read -> Branch(Pipeline(FindTitle) | CountWords) => Reflect -> skillbook{Write -> Write})"
    )
    assert repr(Pipeline([reflect()])) == "Pipeline(=> Reflect)"
    assert repr(Pipeline[PageContext]()) == "Pipeline()"
