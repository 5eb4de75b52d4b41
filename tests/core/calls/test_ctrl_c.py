"""Ctrl-C while the main thread waits for calls on other threads."""

import pytest

from tests.support.subprocesses import run_python

PROGRAM = """
import faulthandler, signal, time
from ace.calls import within_seconds
from tests.support.ctrl_c import interrupted_at

signal.signal(signal.SIGINT, signal.default_int_handler)
within_seconds(60.0, lambda: None)  # its thread is used for the next ones
moment = 1
while interrupted_at(moment, lambda: within_seconds(60.0, lambda: time.sleep(0.002))):
    faulthandler.dump_traceback_later(50, exit=True)  # otherwise, a call is waited for that no thread makes
    within_seconds(60.0, lambda: None)
    within_seconds(60.0, lambda: None)
    moment += 1
print("survived", moment > 10)
"""


def test_the_thread_of_an_interrupted_call_makes_the_next_one() -> None:
    assert run_python(PROGRAM).stdout == "survived True\n"


SEVERAL = """
import concurrent.futures, faulthandler, os, signal, threading, time
import ace
from ace.calls import calling
from ace.evaluation import SkillTests
from ace.outputs import AgentOutput
from ace.pipeline import threads
from ace.protocols import LLMResponse
from ace.rr import CallBudget, SubAgentLLM
from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook
from tests.support.ctrl_c import interrupted_at, is_inside

OURS = os.path.join(os.path.dirname(ace.__file__), "")
WAITS = (threading.__file__, os.path.dirname(concurrent.futures.__file__), calling.__file__, threads.__file__)

def counts(frame):
    return frame.f_code.co_filename.startswith(WAITS) and is_inside(frame, OURS)

class Model:
    def generate(self, **kwargs):
        time.sleep(0.001)
        return AgentOutput(reasoning="", final_answer="4")
    def complete_messages(self, messages, **kwargs):
        time.sleep(0.001)
        return LLMResponse("4")

def test_skills():
    return [case.result for case in SkillTests(book, Model(), workers=3).run(note=False).cases]

def ask_sub_questions():
    sub_agent = SubAgentLLM(Model(), budget=CallBudget(5))
    try:
        return sub_agent.ask_many(["What is 2 + 2?"] * 5)
    except RuntimeError:
        raise sub_agent.failure  # as the reflector does

cases = [SkillCase.make(f"What is {number} + 2?", CaseCheck("numeric", "4")) for number in range(5)]
book = Skillbook()
book.add_skill("sums", "Add the numbers.", cases=cases)
complete = ACTION()
signal.signal(signal.SIGINT, signal.default_int_handler)
moment = 1
while interrupted_at(moment, ACTION, counts=counts):
    faulthandler.dump_traceback_later(120, exit=True)  # otherwise, a lock is waited for that is never released
    assert ACTION() == complete
    moment += 1
print("survived", moment > 30, len(complete))
"""


@pytest.mark.parametrize("action", ["test_skills", "ask_sub_questions"])
def test_calls_on_several_threads_end_after_ctrl_c_and_can_be_repeated(action: str) -> None:
    assert run_python(SEVERAL.replace("ACTION", action)).stdout == "survived True 5\n"
