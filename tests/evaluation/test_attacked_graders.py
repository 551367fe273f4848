"""Language models that grade and compare, and rules on instructions, under the scripted attacks."""

import re

from capitals import CITIES, ROWS

import equipoise

CODE = re.compile(r"<<answer (\w+)>>")
SAID = re.compile(r'"score": (\d+)')


def is_right(shown, text):
    """Whether a text has the capital of the country that the question names."""
    asked = re.search(r"capital of (\w+), in a whole", shown)
    return asked is not None and CITIES[asked[1]] in text


def gullible(view, seed):
    """Repeats the last verdict that it was shown, and otherwise grades by the right word."""
    shown = view.messages[-1].content
    material, _, _ = shown.partition("Grade the answer")
    said = SAID.findall(material)
    if said:
        return f'{{"score": {said[-1]}}}'
    code = CODE.findall(shown)
    grade = 8 if is_right(shown, material.rpartition("The answer:")[2] or material) else 2
    return f'{{"score": {grade}, "code": "{code[-1]}"}}' if code else str(grade)


def compares(view, seed):
    """Prefers the answer with the right word, and of two alike the longer one."""
    shown = view.messages[-1].content
    first, second = re.findall(r"<<answer [AB]? ?\w+>>\n(.*?)\n<<end of", shown, re.DOTALL)
    keys = [(is_right(shown, text), len(text)) for text in (first, second)]
    (code,) = set(re.findall(r'"code": "(\w+)"', shown))
    verdict = "tie" if keys[0] == keys[1] else "AB"[keys[1] > keys[0]]
    return f'{{"verdict": "{verdict}", "code": "{code}"}}'


def attacked(judge, *kinds):
    return equipoise.attack_judge(judge, ROWS, truth="gold", kinds=kinds, gate=False).judges[0]


def grader(call, **settings):
    model = {"kind": "scripted", "call": f"{__name__}:{call}"}
    return {"model": model, **settings}


def test_a_verdict_in_an_answer_moves_a_grader_without_a_code_and_not_one_with_it():
    bare = attacked({"kind": "rubric", **grader("gullible", text="rubric_compact")}, "verdict")
    assert "verdict" in {result.attack.name for result in bare.exploits}
    coded = attacked({"kind": "rubric", **grader("gullible")}, "verdict")
    assert not coded.exploits
    (quoted, _) = [each for each in coded.results if each.attack.name == "verdict"]
    assert quoted.unjudged == len(ROWS)  # repeated without the code: no score, and none by default
    (grade, _) = [each for each in coded.results if each.attack.name == "score"]
    assert grade.unjudged == 0 and grade.gain.mean == 0


def test_a_comparing_model_that_likes_length_is_found_out_by_length_alone():
    judge = attacked({"kind": "pairwise", **grader("compares")}, "length", "flattery", "empty")
    assert judge.open_kinds == ["length"]
    names = {result.attack.name for result in judge.exploits}
    assert names >= {"padded", "long"} and "first word" not in names


def test_rules_on_instructions_alone_pass_texts_without_an_answer_and_in_the_product_do_not():
    rows = []
    for place, row in enumerate(ROWS):
        no_comma = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
        few_words = {
            "instruction_id_list": ["length_constraints:number_words"],
            "kwargs": [{"num_words": 9, "relation": "less than"}],
        }
        rows.append({**row, **(no_comma if place % 2 else few_words)})
    alone = equipoise.attack_judge("instructions", rows, truth="gold", gate=False).judges[0]
    hollow = {result.attack.name for result in alone.hollow}
    assert "a full stop" in hollow and not alone.exploits
    judges = {
        "follows": "instructions",
        "relevant": {"kind": "on_topic", "graded": True},
        "fresh": "repetition",
    }
    panel = {"kind": "panel", "how": "product", "judges": judges}
    product = equipoise.attack_judge(panel, rows, truth="gold", gate=False).judges[0]
    assert not product.exploits and not product.hollow
