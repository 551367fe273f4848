"""Rows for `math`: a right answer, what was answered, and whether the two are equal."""

from collections.abc import Iterator

Row = dict[str, object]

# Ways of saying a number {v}, plain.
SAID = [
    "{v}",
    "{v}.",
    "The answer is {v}.",
    "The answer is **{v}**.",
    "**Answer: {v}**",
    "Final answer: {v}",
    "So there are {v} apples left.",
    "Adding 3 and 4 and the rest, we get a total of {v}.",
    "= {v}",
    "x = {v}",
    "#### {v}",
    "Step 1: take 3.\nStep 2: take 5.\n#### {v}",
    "The answer is {v}. (I checked it 3 times.)",
    "Answer: {v}\n\nNote that a week has 7 days.",
    "\\boxed{{{v}}}",
    "$\\boxed{{{v}}}$",
    "Thus \\[ \\boxed{{{v}}} \\] as there are 2 sides.",
    "It is $x = {v}$.",
    "Hence \\({v}\\).",
    "Therefore the answer is \\[{v}\\]",
    "\\boxed{{{v} \\text{{ apples}}}}",
    "\\boxed{{x = {v}}}",
    "I used 2 methods and 3 checks, and both say {v}!",
    "She pays {v} in all, which is what was asked.",
    "3 + 4 = 7, and with the rest it is {v}",
    "<answer>{v}</answer>",
    '{{"answer": {v}}}',
    "The final answer is ${v}$. I hope it is correct.",
    "It is \\boxed{{{v}}}.\n\n**Final Answer**\n\\boxed{{{v}}}",
    "Let me think. First 12 * 3 = 36. Then 36 - 1 = 35. No, that is beside the point. "
    "The answer is {v}.",
]
VALUES = [("18", "17"), ("2160", "216"), ("-5", "5"), ("0.25", "0.52")]

# kind -> (right answer, answers that equal it, answers that do not)
FORMS: dict[str, list[tuple[str, list[str], list[str]]]] = {
    "small and large numbers": [
        (
            "1.77e-6",
            [
                "The answer is 1.77e-6.",
                "It is 1.77e-6 m.",
                "1.77E-6",
                "1.77 × 10^-6",
                "1.77 × 10⁻⁶",
                "1.77 x 10^-6",
                "1.77 * 10^-6",
                "1.77·10^{-6}",
                "$1.77\\times10^{-6}$ m",
                "\\boxed{1.77 \\times 10^{-6} \\text{ m}}",
                "About 1.77 × 10^(-6) metres.",
                "0.00000177",
            ],
            ["1.77e-7", "1.77", "1.78e-6", "-1.77e-6", "1.77 × 10⁻⁷", "1.77 × 10⁶", "0", "177"],
        ),
        (
            "2.88e-19",
            ["\\boxed{2.88 \\times 10^{-19}}", "2.88e-19 J", "It is 2.88·10^-19."],
            ["\\boxed{5.76 \\times 10^{-19}}", "-4e-20", "0", "2.88e-18", "2.89e-19"],
        ),
        ("\\frac1{2^{99}}", ["\\boxed{2^{-99}}", "$\\frac{1}{2^{99}}$"], ["\\frac{1}{2^{98}}", "0"]),
        ("6.02e23", ["6.02 × 10²³", "6.02e+23", "$6.02\\cdot 10^{23}$"], ["6.02e22", "6.03e23"]),
        ("0.0000001", ["1e-7", "10^{-7}", "0.0000001"], ["0.0000002", "0", "1e-8"]),
        ("1000001", ["1,000,001", "1000001"], ["1000000", "1000002", "1e6"]),
        ("123456789", ["123,456,789", "123456789."], ["123456788", "123456790"]),
        ("0.3333333", ["1/3", "0.3333333", "0.33333333"], ["0.33", "0.34", "3"]),
        ("3.14159265", ["\\pi", "3.14159265"], ["3.14", "3", "22/7"]),
        ("5e-324", ["5e-324"], ["4e-300", "0"]),
    ],
    "currency": [
        (
            "70000",
            [
                "She has \\$70,000.",
                "She has $70,000.",
                "$70,000",
                "$70,000.00",
                "\\boxed{\\$70,000}",
                "\\boxed{70{,}000}",
                "\\boxed{70,\\!000}",
                "€70,000",
                "70,000 dollars",
                "USD 70,000",
                "£70 000",
                "He earns $70,000 a year.",
                "The profit is **$70,000**.",
                "70000 €",
                "$200,000 - $130,000 = $70,000",
                "The house cost $80,000 and the repairs $50,000, so the profit is $70,000.",
            ],
            ["$7,000", "$70", "$70,001", "$70.00", "\\$700,000", "$80,000 - $20,000 = $60,000"],
        ),
        ("\\$1.65", ["1.65", "$1.65$", "$1.65", "It costs $1.65 a piece."], ["1.56", "165"]),
        ("29", ["$29.00", "The delivery is $29.00.", "29.0"], ["$29.50", "$2900"]),
        ("\\$32,\\!348", ["32348", "\\$32,348", "$32,348."], ["32.348", "348"]),
    ],
    "thousands": [
        (
            "1000000",
            ["1,000,000", "1 000 000", "1\u00a0000\u00a0000", "1\u202f000\u202f000", "1.000.000",
             "1'000'000", "1_000_000", "10,00,000", "10^6", "1e6", "1 million", "1 000 000 people."],
            ["1,000", "1 000", "100,000", "1", "0"],
        ),
        ("1234567", ["1,234,567", "1.234.567", "1 234 567", "12,34,567"], ["1234", "1.234567"]),
        ("11,\\! 111,\\! 111,\\! 100", ["\\boxed{11111111100}", "11,111,111,100"], ["100", "11"]),
        ("72", ["The total is 72 clips, altogether.", "72, I think."], ["7,2", "It is 27, not 72."]),
        ("1,\\!000", ["1000", "1,000"], ["1", "100"]),
    ],
    "signs": [
        (
            "-5",
            ["−5", "–5", "The change is −5 degrees.", "-5°C", "minus 5", "It is -5.", "\\boxed{-5}",
             "\\boxed{−5}", "x=-5", "$-5$", "－５", "-5.0"],
            ["5", "+5", "The change is 5 degrees.", "\\boxed{5}", "0-4", "10 - 5"],
        ),
        ("3", ["+3", "8 - 5 = 3", "8-5=3", "8 − 5 = 3"], ["-3", "5 - 8 = -3"]),
        ("-\\frac{1}{2}", ["-1/2", "−½", "-0.5", "\\boxed{\\frac{-1}{2}}"], ["1/2", "½", "-2"]),
    ],
    "fractions": [
        (
            "\\frac{1}{2}",
            ["½", "1/2", "0.5", ".5", "\\frac12", "\\dfrac{1}{2}", "\\tfrac12", "$\\frac 12$.",
             "It is ½.", "one half: 1/2", "\\boxed{1/2}", "2/4", "50%", "1⁄2"],
            ["2", "1/3", "⅓", "12", "\\frac{2}{1}", "0.05"],
        ),
        ("\\frac{3}{4}", ["¾", "3/4", "0.75", "The probability is 3/4."], ["4/3", "34", "¼"]),
        ("3\\frac{1}{2}", ["3 1/2", "3½", "3.5", "7/2", "\\frac{7}{2}", "3 ½"], ["3/2", "31/2", "3"]),
        ("2.75", ["2 3/4", "2¾", "2\\frac{3}{4}", "It took 2 3/4 hours."], ["23/4", "2", "3/4"]),
        ("\\frac{8}{3}", ["8/3", "2\\frac{2}{3}", "$\\boxed{\\frac{8}{3}}$"], ["3/8", "2.6", "2.67"]),
        ("\\frac 34", ["3/4", "\\frac{3}{4}"], ["4/3"]),
    ],
    "percentages": [
        (
            "12\\%",
            ["12%", "12 %", "12 percent", "\\boxed{12\\%}", "\\boxed{12 \\%}", "0.12", "12",
             "It is 12%.", "$12\\%$", "\\boxed{12}", "12 pct", "\\boxed{12\\text{ percent}}"],
            ["1.2%", "120%", "0.012", "21%", "88%"],
        ),
        ("12", ["12%", "12 percent", "12\\%", "It grew by 12%."], ["0.12", "1.2%"]),
        ("0.5", ["50%", "50\\%", "\\boxed{50\\%}"], ["5%", "0.5%", "50"]),
    ],
    "units": [
        (
            "5",
            ["5 cm", "5 m^2", "5 km/h", "5 m/s^2", "5 m²", "5\\text{ cm}", "\\boxed{5\\text{ cm}}",
             "\\boxed{5 \\text{ cm}^2}", "\\boxed{5\\,\\mathrm{m/s^2}}", "5 hours", "5kg", "5 mL",
             "It is 5 metres high.", "\\boxed{5 \\mbox{ units}}", "5 apples", "5 square feet"],
            ["5.5 cm", "25 m^2", "50 km/h", "0.5 kg", "\\boxed{52 \\text{ cm}}"],
        ),
        ("15\\mbox{ cm}^2", ["15", "15 cm^2", "\\boxed{15}", "15 cm²"], ["225", "51"]),
        ("90^\\circ", ["90", "90°", "90 degrees", "\\boxed{90^\\circ}", "$90^{\\circ}$"], ["9", "60°"]),
        ("5.4 \\text{ cents}", ["5.4", "5.4 cents", "\\boxed{5.4}"], ["54", "4.5"]),
        ("6 \\text{ minutes}", ["6", "6 minutes", "6 min"], ["60", "9"]),
    ],
    "corrected": [
        (
            "10",
            [
                "It is \\boxed{9}, no wait, \\boxed{10}",
                "\\boxed{9}\n\nHmm, I forgot one.\n\n\\boxed{10}",
                "The answer is 9. Wait, that is wrong. The answer is 10.",
                "The answer is 9. No, 10.",
                "9... no, 10",
                "The answer is \\boxed{9}. Let me check: 4 + 6 = 10. So \\boxed{10}.",
                "First I had 9, but the answer is 10.",
                "The answer is 10, not 9.",
                "It is 10 rather than 9.",
                "It's not 9, it's 10.",
            ],
            [
                "It is \\boxed{10}, no wait, \\boxed{9}",
                "The answer is 10. Wait, that is wrong. The answer is 9.",
                "The answer is 9, not 10.",
                "It is 9 rather than 10.",
                "Not 10 but 9.",
                "\\boxed{10}? No. \\boxed{11}",
                "10 + 3 = 13",
                "Out of 10, she keeps 4.",
            ],
        ),
    ],
    "unterminated": [
        (
            "10",
            ["\\boxed{10} and that is all."],
            ["\\boxed{10} \\boxed{", "\\boxed{10", "The result is \\boxed{1", "\\boxed{\\frac{20}{2}",
             "I think \\boxed{"],
        ),
    ],
    "no answer": [
        ("10", [], ["", "I do not know.", "It cannot be determined.", "ten-ish", "?", "...",
                    "I'm sorry, but I can't help with that.", "x", "\\boxed{}"]),
    ],
    "beside dates and lists": [
        (
            "30",
            [
                "On 12 May 2021 she had 30 apples.",
                "As of 2024-05-06, the answer is 30.",
                "1. Take 10.\n2. Take 20.\n\nThe answer is 30.",
                "**Step 3:** add them: 10 + 20 = **30**",
                "The answer is 30.\n\n[1] A. Author, 1999.",
                "There are 30 days in it (in 2 of 3 cases).\nAnswer: 30",
                "10 + 20 = 30\n\nSo 30 it is.",
                "30 minutes = 0.5 hours, so in minutes the answer is 30.",
            ],
            ["1. Take 10.\n2. Take 20.\n\nThe answer is 40.", "10 + 20 = 31", "30 - 1 = 29"],
        ),
    ],
    "chains": [
        ("12", ["3 × 4 = 12", "3*4 = 6*2 = 12", "2(3+3) = 12", "$3 \\times 4 = 12$", "24/2 = 12"],
         ["12 × 2 = 24", "12 = 3 × 4, and doubled that is 24.", "$12 + 1 = 13$"]),
        ("x = 3", ["3", "x=3", "$x = 3$", "The solution is x = 3."], ["x = 4", "-3", "x = 3/2"]),
    ],
    "other scripts": [
        (
            "12",
            ["答案是12。", "答案是１２。", "\\boxed{１２}", "答えは12です。", "정답은 12입니다.", "Ответ: 12.",
             "الجواب هو ١٢", "الجواب: 12", "उत्तर १२ है।", "Die Antwort ist 12.", "La réponse est 12.",
             "La respuesta es 12.", "A resposta é 12.", "La risposta è 12.", "所以一共有12个苹果。"],
            ["答案是21。", "答えは13です。", "정답은 2입니다.", "Ответ: 1,2.", "\\boxed{２１}", "共有12个，剩下7个。"],
        ),
        ("12.5", ["Die Antwort ist 12,5.", "La réponse est 12,5.", "12,5"], ["125", "12", "1,25"]),
    ],
    "expressions": [
        ("x^2+2x+1", ["$(x+1)^2$", "\\boxed{(x+1)^2}", "x^2 + 2x + 1", "1 + 2x + x^2"],
         ["(x-1)^2", "x^2+2x", "x^2 + 1"]),
        ("p - q", ["p-q", "\\boxed{p - q}", "-q + p"], ["q - p", "p + q"]),
        ("3\\sqrt{13}", ["\\sqrt{117}", "\\boxed{3\\sqrt{13}}", "3√13"], ["\\sqrt{13}", "13\\sqrt{3}"]),
        ("11\\sqrt2", ["\\boxed{11\\sqrt{2}}", "$11\\sqrt 2$"], ["2\\sqrt{11}", "\\sqrt2"]),
        ("\\pi", ["\\boxed{\\pi}", "$\\pi$", "π"], ["2\\pi", "\\frac{\\pi}{2}"]),
        ("6 - 5i", ["\\boxed{6-5i}", "-5i + 6"], ["6+5i", "5 - 6i"]),
        ("2x", ["x + x", "\\boxed{2x}", "2 x"], ["x^2", "2", "3x"]),
        ("y = 2x + 3", ["\\boxed{y=2x+3}", "$y = 2x + 3$", "2x+3"], ["y = 3x + 2", "y = 2x - 3"]),
        ("\\frac{243}{625}", ["243/625", "0.3888"], ["625/243", "0.39"]),
        ("\\log_2 8", ["3", "\\boxed{3}"], ["8", "2"]),
        ("52_8", ["\\boxed{52_8}", "52_8"], ["52_9", "25_8"]),
        ("10!", ["3628800", "\\boxed{10!}"], ["9!", "10"]),
    ],
    "tuples, sets, intervals": [
        ("\\left( 3, \\frac{\\pi}{2} \\right)", ["\\boxed{(3, \\frac{\\pi}{2})}", "$(3, \\pi/2)$",
         "(3, \\pi/2)"], ["(3, \\pi)", "(\\frac{\\pi}{2}, 3)", "3"]),
        ("(1, 2)", ["(1, 2)", "(1,2)", "The point is (1, 2).", "\\boxed{(1,2)}"],
         ["(2, 1)", "(1, 3)", "2", "(1, 2, 3)"]),
        ("1,-2", ["\\boxed{-2, 1}", "1 and -2", "x = 1 or x = -2", "\\boxed{1,-2}",
         "$x=1$ and $x=-2$", "\\boxed{1 \\text{ and } -2}", "-2, 1"],
         ["1", "-2", "\\boxed{1, 2}", "\\boxed{1,-2,3}"]),
        ("3, 5, 7", ["\\boxed{3,5,7}", "3, 5, 7", "7, 5, 3", "3, 5 and 7"], ["3, 5", "3, 5, 8", "357"]),
        ("1,-1,i,-i", ["$i, -i, 1, -1$", "\\boxed{\\pm 1, \\pm i}"], ["1,-1", "i,-i,2,-2"]),
        ("\\pm 2", ["\\boxed{\\pm 2}", "2, -2", "\\boxed{-2, 2}"], ["2", "-2", "4"]),
        ("\\{1, 2, 3\\}", ["\\boxed{\\{3, 2, 1\\}}", "$\\{1,2,3\\}$"], ["\\{1, 2\\}", "\\{1,2,4\\}"]),
        ("(-\\infty, 2) \\cup (3, \\infty)", ["\\boxed{(-\\infty,2)\\cup(3,\\infty)}",
         "\\boxed{(3, \\infty) \\cup (-\\infty, 2)}"], ["(2, 3)", "(-\\infty, 3)"]),
        ("[-2, 7]", ["\\boxed{[-2,7]}", "$x \\in [-2,7]$", "\\boxed{x \\in [-2, 7]}",
         "$-2 \\le x \\le 7$"], ["(-2, 7)", "[-2, 7)", "[2, 7]"]),
        ("x > 3", ["\\boxed{x>3}", "\\boxed{(3, \\infty)}", "$3 < x$"], ["x < 3", "x \\ge 3", "3"]),
        ("\\begin{pmatrix} -18 \\\\ -49 \\\\ 96 \\end{pmatrix}",
         ["\\boxed{\\begin{pmatrix}-18\\\\-49\\\\96\\end{pmatrix}}",
          "$\\begin{bmatrix} -18 \\\\ -49 \\\\ 96 \\end{bmatrix}$"],
         ["\\begin{pmatrix} -18 \\\\ 49 \\\\ 96 \\end{pmatrix}", "-184996"]),
        ("\\begin{pmatrix} -1 & 0 \\\\ 0 & -1 \\end{pmatrix}",
         ["\\boxed{\\begin{pmatrix} -1 & 0 \\\\ 0 & -1 \\end{pmatrix}}"],
         ["\\boxed{\\begin{pmatrix} 1 & 0 \\\\ 0 & 1 \\end{pmatrix}}"]),
        ("3:2", ["3:2", "\\boxed{3:2}", "The ratio is 3:2.", "3 : 2"], ["2:3", "3", "2"]),
    ],
    "text": [
        ("\\text{Evelyn}", ["\\boxed{\\text{Evelyn}}", "\\boxed{Evelyn}", "Evelyn", "Evelyn.",
         "The answer is Evelyn.", "\\text{Evelyn}"], ["\\boxed{\\text{Angela}}", "Angela", "The answer is 3."]),
        ("\\text{(C)}", ["\\boxed{C}", "\\boxed{\\text{(C)}}", "(C)", "The answer is (C)."],
         ["\\boxed{D}", "(B)"]),
        ("\\text{even}", ["\\boxed{\\text{even}}", "\\boxed{even}", "even"], ["\\boxed{\\text{odd}}", "odd"]),
        ("\\text{east}", ["\\boxed{\\text{East}}", "East"], ["\\boxed{\\text{west}}"]),
        ("\\text{Yes}", ["\\boxed{\\text{Yes}}", "Yes", "yes."], ["\\boxed{\\text{No}}", "No"]),
        ("\\text{6:30 p.m.}", ["\\boxed{\\text{6:30 p.m.}}", "6:30 p.m."], ["\\boxed{\\text{7:30 p.m.}}"]),
    ],
}  # fmt: skip


def rows() -> Iterator[Row]:
    """All rows, in a fixed order."""
    for turn, template in enumerate(SAID):
        right, wrong = VALUES[turn % len(VALUES)]
        yield row(right, template.format(v=right), 1, "said")
        yield row(right, template.format(v=wrong), 0, "said")
    for kind, cases in FORMS.items():
        for right, equal, unequal in cases:
            for answer in equal:
                yield row(right, answer, 1, kind)
            for answer in unequal:
                yield row(right, answer, 0, kind)


def row(right: str, answer: str, score: int, kind: str) -> Row:
    return {
        "judge": "math",
        "facts": {"answer": right},
        "answer": answer,
        "score": score,
        "kind": kind,
        "language": "en",
    }
