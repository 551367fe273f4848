"""Rows for `choice`: a question's options, an answer, and whether it states the right one.

Every template says which option it states: `{L}` is that option's letter and `{T}` its text, `{M}`
and `{U}` are those of another option, `{N}` and `{V}` of a third, `{O}` and `{X}` of the fourth.
Each answer gives a row where the stated option is right and one where another is.
"""

from collections.abc import Iterator

Row = dict[str, object]

OPTIONS: dict[str, list[list[str]]] = {
    "en": [
        ["Paris", "London", "Rome", "Berlin"],
        ["a red giant", "a white dwarf", "a neutron star", "a black hole"],
        ["It expands", "It contracts", "It melts", "It stays the same"],
    ],
    "de": [["Hammer", "Säge", "Zange", "Feile"], ["der Mond", "die Sonne", "der Mars", "die Erde"]],
    "fr": [["le fer", "le cuivre", "le zinc", "le plomb"], ["Lyon", "Nice", "Brest", "Lille"]],
    "es": [["el perro", "el gato", "el caballo", "el lobo"], ["Madrid", "Lima", "Quito", "Bogotá"]],
    "pt": [["o vento", "a chuva", "a neve", "o gelo"], ["Lisboa", "Porto", "Braga", "Faro"]],
    "it": [["il pane", "il latte", "il vino", "il sale"], ["Milano", "Torino", "Bari", "Pisa"]],
    "ru": [["золото", "серебро", "медь", "олово"], ["Волга", "Дон", "Лена", "Обь"]],
    "zh": [["北京", "上海", "广州", "深圳"], ["氧气", "氮气", "氢气", "氦气"]],
    "ja": [["東京", "大阪", "京都", "名古屋"], ["春", "夏", "秋", "冬"]],
    "ko": [["서울", "부산", "대구", "인천"], ["사과", "포도", "수박", "딸기"]],
    "ar": [["القاهرة", "دمشق", "بغداد", "الرباط"], ["الحديد", "الذهب", "الفضة", "النحاس"]],
}

BARE = [
    "{L}",
    "({L})",
    "{L}.",
    "{L})",
    "[{L}]",
    "**{L}**",
    "**{L}.**",
    "`{L}`",
    "{l}",
    "({l})",
    "{L}. {T}",
    "{L}) {T}",
    "({L}) {T}",
    "{L}: {T}",
    "{L} - {T}",
    "**{L}. {T}**",
    "\\boxed{{{L}}}",
    "$\\boxed{{\\text{{{L}}}}}$",
    "\\boxed{{\\text{{({L})}}}}",
    "\\[\\boxed{{\\mathrm{{{L}}}}}\\]",
    "\\boxed{{{L}. {T}}}",
    "\\textbf{{({L})}}\\ {T}",
    "$\\text{{{L}}}$",
    "<answer>{L}</answer>",
    "<answer> ({L}) {T} </answer>",
    '{{"answer": "{L}"}}',
    "{{'answer': '{L}'}}",
    '```json\n{{"reasoning": "by exclusion", "answer": "{L}"}}\n```',
    '{{"choice": "{L}", "confidence": 0.8}}',
    "ANSWER: {L}",
    "ANSWER: **{L}**",
    "ANSWER: ${L}$",
    "### Answer\n{L}",
    "**Answer:** {L}",
    "**Answer: {L}**",
    "Final Answer: ({L})",
    "Answer:\n\n{L}) {T}",
    "Option {L}",
    "option {l}",
    "{T}",
    "{T}.",
    "**{T}**",
]

# kind -> language -> templates of answers that state {L}
STATED: dict[str, dict[str, list[str]]] = {
    "declared": {
        "en": [
            "The answer is {L}.",
            "The answer is: **{L}**",
            "The correct answer is ({L}) {T}.",
            "It's {L}",
            "It is {L}.",
            "Thus, {L}.",
            "Hence {L}.",
            "So {L} it is.",
            "So, {L}.",
            "Therefore, the correct option is ({L}).",
            "I'd go with {L}.",
            "I would pick {L} - a safe choice.",
            "My choice: {L}",
            "My final answer is {L}",
            "The right choice here would be {L}, I think.",
            "Answer seems to be {L}.",
            "{L} is the right one.",
            "{L} is correct.",
            "Option {L} is correct because a warm body moves.",
            "The answer is {L} because a car moves.",
            "The answer is {L} because I computed it twice.",
            "the answer is {l}",
            "the correct option is {l}) {T}",
            "I'm confident it's {L}.",
            "Looks like {L} to me.",
            "It must be {L}.",
            "Let me think about it step by step. What is asked is simple enough.\n\n{L}",
            "That gives us {L} as the answer.",
            "Of the four options, {L} fits best.",
            "{L}, since that is what the text says.",
            "We conclude that {L} is true.",
            "Correct answer: {L}",
            "Selected option: {L}",
            "The best answer would therefore be {L}.",
        ],
        "de": [
            "Die richtige Antwort ist {L}.",
            "Die Antwort lautet {L}.",
            "Antwort: {L}",
            "Richtig ist {L}.",
            "Ich entscheide mich für {L}.",
            "Also {L}.",
            "Es ist {L}.",
            "Option {L} ist richtig.",
            "Daher ist {L}) {T} korrekt.",
            "Die Lösung ist Antwort {L}.",
        ],
        "fr": [
            "La bonne réponse est {L}.",
            "La réponse correcte est la {L}.",
            "Réponse : {L}",
            "C'est {L}.",
            "Je choisis {L}.",
            "Donc {L}.",
            "L'option {L} est correcte.",
            "Il s'agit de {L}) {T}.",
            "La réponse est donc {L}.",
        ],
        "es": [
            "La respuesta correcta es {L}.",
            "La respuesta es la {L}.",
            "Respuesta: {L}",
            "Es {L}.",
            "Elijo {L}.",
            "Por lo tanto, {L}.",
            "La opción {L} es correcta.",
            "La opción correcta es {L}) {T}.",
            "Así que la respuesta es {L}.",
        ],
        "pt": [
            "A resposta correta é {L}.",
            "A resposta é a {L}.",
            "Resposta: {L}",
            "É {L}.",
            "Escolho {L}.",
            "Portanto, {L}.",
            "A opção {L} está correta.",
            "A alternativa correta é {L}) {T}.",
        ],
        "it": [
            "La risposta corretta è {L}.",
            "La risposta è la {L}.",
            "Risposta: {L}",
            "È {L}.",
            "Scelgo {L}.",
            "Quindi {L}.",
            "L'opzione {L} è corretta.",
            "L'opzione giusta è {L}) {T}.",
        ],
        "ru": [
            "Правильный ответ: {L}.",
            "Правильный ответ — {L}.",
            "Ответ: {L}",
            "Это {L}.",
            "Я выбираю {L}.",
            "Следовательно, {L}.",
            "Вариант {L} верен.",
            "Верный вариант — {L}) {T}.",
        ],
        "zh": [
            "答案是{L}。",
            "正确答案是 {L}。",
            "答案：{L}",
            "正确答案为{L}",
            "我选择{L}。",
            "因此选{L}。",
            "选项{L}是正确的。",
            "所以答案是（{L}）。",
            "故选{L}",
            "应该选{L}：{T}。",
        ],
        "ja": [
            "答えは{L}です。",
            "正解は{L}です。",
            "答え：{L}",
            "正解：（{L}）",
            "{L}が正しいです。",
            "したがって、{L}です。",
            "選択肢{L}を選びます。",
            "答えは「{L}. {T}」です。",
        ],
        "ko": [
            "정답은 {L}입니다.",
            "답은 {L}입니다.",
            "정답: {L}",
            "답: ({L})",
            "따라서 {L}입니다.",
            "{L}가 맞습니다.",
            "저는 {L}를 선택합니다.",
            "올바른 선택지는 {L}. {T}입니다.",
        ],
        "ar": [
            "الإجابة الصحيحة هي {L}.",
            "الجواب هو {L}.",
            "الإجابة: {L}",
            "إذن الجواب هو ({L}).",
            "أختار {L}.",
            "الخيار {L} صحيح.",
            "الخيار الصحيح هو {L}) {T}.",
        ],
    },
    "denied": {
        "en": [
            "The answer isn't {M}; it's {L}.",
            "It's not {M}. It's {L}.",
            "{M} is wrong, so {L}.",
            "{M}, {N} and {O} are incorrect, therefore {L}.",
            "Neither {M} nor {N}; {L}.",
            "The answer can't be {M}, so it has to be {L}.",
            "Eliminate {M}, {N} and {O}. That leaves {L}.",
            "It is {L} rather than {M}.",
            "{L}, not {M}.",
            "Not {M} but {L}.",
            "The answer is {L} and not {M}.",
            "{T}, not {U}",
            "{T} instead of {U}",
            "It is {T} rather than {U}.",
            "It's not {U}, it's {T}.",
        ],
        "de": [
            "Die Antwort ist nicht {M}, sondern {L}.",
            "{M} ist falsch, also {L}.",
            "{L}, nicht {M}.",
            "{T} statt {U}",
        ],
        "fr": [
            "La réponse n'est pas {M} mais {L}.",
            "{M} est faux, donc {L}.",
            "{L}, pas {M}.",
            "{T} plutôt que {U}",
        ],
        "es": [
            "La respuesta no es {M}, sino {L}.",
            "{M} es incorrecta, así que {L}.",
            "{L}, no {M}.",
            "{T} en lugar de {U}",
        ],
        "pt": [
            "A resposta não é {M}, mas {L}.",
            "{M} está errada, portanto {L}.",
            "{L}, não {M}.",
            "{T} em vez de {U}",
        ],
        "it": [
            "La risposta non è {M}, ma {L}.",
            "{M} è sbagliata, quindi {L}.",
            "{L}, non {M}.",
            "{T} invece di {U}",
        ],
        "ru": [
            "Ответ не {M}, а {L}.",
            "{M} неверно, значит {L}.",
            "{L}, а не {M}.",
            "{T}, а не {U}",
        ],
        "zh": ["答案不是{M}，而是{L}。", "{M}是错误的，所以选{L}。", "是{T}，不是{U}。"],
        "ja": [
            "答えは{M}ではなく{L}です。",
            "{M}は間違いなので、{L}です。",
            "{U}ではなく{T}です。",
        ],
        "ko": [
            "답은 {M}가 아니라 {L}입니다.",
            "{M}는 틀렸으므로 {L}입니다.",
            "{U}가 아니라 {T}입니다.",
        ],
        "ar": ["الجواب ليس {M} بل {L}.", "{M} خطأ، إذن الجواب {L}.", "{T} وليس {U}"],
    },
    "explained afterwards": {
        "en": [
            "Conclusion: ({L}). Eliminated: ({M}), ({N}), ({O}).",
            "The answer is {L}. {M} is a common distractor.",
            "The answer is {L}. Note that {M} is a common distractor.",
            "{L} is correct. {M} is incorrect because it is too far off, {N} is too vague and {O} "
            "is unrelated.",
            "Answer: {L}\n\nWhy not the others?\n{M}) {U}: wrong.\n{N}) {V}: wrong.\n{O}) {X}: wrong.",
            "**{L}) {T}**\n\nThe other options:\n- {M}) {U} does not fit.\n- {N}) {V} does not fit.",
            "The answer is ({L}). Some people choose ({M}), which is a mistake.",
            "ANSWER IS {L}. {M} is incorrect.",
            "{T} is right. {U} and {V} are not.",
        ],
        "de": [
            "Die Antwort ist {L}. {M} ist ein häufiger Irrtum.",
            "{L} ist richtig. {M} ist falsch.",
        ],
        "fr": [
            "La réponse est {L}. {M} est une erreur fréquente.",
            "{L} est correct. {M} est faux.",
        ],
        "es": ["La respuesta es {L}. {M} es un error frecuente.", "{L} es correcta. {M} es falsa."],
        "pt": ["A resposta é {L}. {M} é um erro comum.", "{L} está correta. {M} está errada."],
        "it": ["La risposta è {L}. {M} è un errore comune.", "{L} è corretta. {M} è sbagliata."],
        "ru": ["Ответ: {L}. Вариант {M} — частая ошибка.", "{L} верно. {M} неверно."],
        "zh": ["答案是{L}。{M}是常见的错误。", "{L}正确，{M}错误。"],
        "ja": ["答えは{L}です。{M}はよくある間違いです。", "{L}が正しく、{M}は誤りです。"],
        "ko": ["정답은 {L}입니다. {M}는 흔한 오답입니다.", "{L}가 맞고 {M}는 틀립니다."],
        "ar": ["الجواب هو {L}. {M} خطأ شائع.", "{L} صحيح و{M} خطأ."],
    },
    "corrected": {
        "en": [
            "The answer is {M}. Wait, no, it's {L}.",
            "{M}... wait, {L}",
            "At first I'd say {M}, but on reflection the answer is {L}.",
            "I initially thought {M}. Actually, {L}.",
            "Answer: {M}\nCorrection: {L}",
            "\\boxed{{{M}}} Hmm, no. \\boxed{{{L}}}",
            "The answer is {M}. Hmm, let me check that again: {U} is wrong, so the answer is {L}.",
            "First {U} came to mind, then {T}. The answer is {T}.",
            "Answer: {M}\n\nLet me double check this.\n\nAnswer: {L}",
            "I was going to say {M}, but the answer is {L}.",
            "The answer might be {M}. Or {N}? No: it is {L}.",
        ],
        "de": [
            "Die Antwort ist {M}. Moment, nein: {L}.",
            "Zuerst dachte ich {M}, aber es ist {L}.",
        ],
        "fr": ["La réponse est {M}. Attendez, non : {L}.", "Je pensais à {M}, mais c'est {L}."],
        "es": ["La respuesta es {M}. Espera, no: es {L}.", "Primero pensé en {M}, pero es {L}."],
        "pt": ["A resposta é {M}. Espere, não: é {L}.", "Primeiro pensei em {M}, mas é {L}."],
        "it": ["La risposta è {M}. Aspetta, no: è {L}.", "Prima pensavo {M}, ma è {L}."],
        "ru": ["Ответ: {M}. Нет, подождите: {L}.", "Сначала я думал {M}, но это {L}."],
        "zh": ["答案是{M}。等等，不对，应该是{L}。", "我最初认为是{M}，但正确答案是{L}。"],
        "ja": [
            "答えは{M}です。いや、待って、{L}です。",
            "最初は{M}だと思いましたが、正解は{L}です。",
        ],
        "ko": [
            "정답은 {M}입니다. 아니, 잠깐, {L}입니다.",
            "처음에는 {M}라고 생각했지만 정답은 {L}입니다.",
        ],
        "ar": ["الجواب هو {M}. لا، انتظر، الجواب هو {L}.", "ظننت أولا أنه {M}، لكن الجواب هو {L}."],
    },
    "weighed first": {
        "en": [
            "A) is not it. B) might be. C) hardly. D) no.\n\nSo the answer is {L}.",
            "({M}) {U}: does not hold.\n({N}) {V}: does not hold.\n({O}) {X}: does not hold.\n"
            "({L}) {T}: holds.\n\nThe correct answer is ({L}).",
            "Let's consider each option.\n\n**{M}. {U}** - no.\n**{N}. {V}** - no.\n\n"
            "**{L}. {T}** - yes!\n\n**Answer: {L}**",
            "A perfect answer cannot be found, but {L} comes closest. The answer is {L}.",
            "I think that the question asks for {T}, so I choose option {L}.",
            "Option {M} is too strong. Option {N} is off topic. I therefore choose option {L}.",
        ],
        "de": ["{M} passt nicht, {N} auch nicht. Richtig ist {L}."],
        "fr": ["{M} ne convient pas, {N} non plus. La bonne réponse est {L}."],
        "es": ["{M} no encaja, {N} tampoco. La respuesta correcta es {L}."],
        "pt": ["{M} não serve, {N} também não. A resposta correta é {L}."],
        "it": ["{M} non va bene, {N} nemmeno. La risposta corretta è {L}."],
        "ru": ["{M} не подходит, {N} тоже. Правильный ответ: {L}."],
        "zh": ["{M}不对，{N}也不对，所以正确答案是{L}。"],
        "ja": ["{M}は違います。{N}も違います。正解は{L}です。"],
        "ko": ["{M}는 아니고 {N}도 아닙니다. 정답은 {L}입니다."],
        "ar": ["{M} غير مناسب و{N} كذلك. الإجابة الصحيحة هي {L}."],
    },
    "by text": {
        "en": [
            "It is {T}.",
            "I believe that it's {T}.",
            "The answer is {T}.",
            "{T} is the right answer.",
            "Answer: {T}",
            "<answer>{T}</answer>",
            "\\boxed{{\\text{{{T}}}}}",
            '{{"answer": "{T}"}}',
        ],
        "de": ["Die Antwort ist {T}.", "Es ist {T}."],
        "fr": ["La réponse est {T}.", "C'est {T}."],
        "es": ["La respuesta es {T}.", "Es {T}."],
        "pt": ["A resposta é {T}."],
        "it": ["La risposta è {T}."],
        "ru": ["Ответ: {T}.", "Это {T}."],
        "zh": ["答案是{T}。", "是{T}。"],
        "ja": ["答えは{T}です。", "{T}です。"],
        "ko": ["정답은 {T}입니다.", "{T}입니다."],
        "ar": ["الجواب هو {T}."],
    },
}

# Answers that state no option, or more than one.
UNDECIDED = {
    "en": [
        "It's either {M} or {N}.",
        "{M} or {N}",
        "It could be {M}, it could be {N}.",
        "Both {M} and {N} are correct.",
        "I don't know.",
        "None of the above.",
        "I cannot answer this question.",
        "",
        "A hard question, that one.",
        "I think so.",
        "A solution is not easy to see here.",
        "{M}/{N}",
        "The answer is {M} and {N}.",
        "The answer isn't {M}.",
        "Could you repeat the options?",
        "\\boxed{{{M}, {N}}}",
        "<answer>{M} or {N}</answer>",
        "As an AI I have no opinion.",
    ],
    "de": ["Entweder {M} oder {N}.", "Das weiß ich nicht."],
    "fr": ["Soit {M}, soit {N}.", "Je ne sais pas."],
    "es": ["O {M} o {N}.", "No lo sé."],
    "pt": ["Ou {M} ou {N}.", "Não sei."],
    "it": ["O {M} o {N}.", "Non lo so."],
    "ru": ["Либо {M}, либо {N}.", "Я не знаю."],
    "zh": ["{M}或者{N}。", "我不知道。"],
    "ja": ["{M}か{N}です。", "わかりません。"],
    "ko": ["{M} 또는 {N}입니다.", "모르겠습니다."],
    "ar": ["إما {M} أو {N}.", "لا أعرف."],
}

YES_NO = ["Yes", "No"]
TEN = dict(
    zip(
        "ABCDEFGHIJ",
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
        strict=True,
    )
)
# (choices, answer, the option that it states or None)
SINGLES: list[tuple[object, str, str | None]] = [
    (YES_NO, "Yes.", "Yes"),
    (YES_NO, "No.", "No"),
    (YES_NO, "No, it isn't.", "No"),
    (YES_NO, "Yes, because it floats.", "Yes"),
    (YES_NO, "**Yes**", "Yes"),
    (YES_NO, "The answer is no.", "No"),
    (YES_NO, "I would say yes.", "Yes"),
    (YES_NO, "There is no doubt: yes.", "Yes"),
    (YES_NO, "Hmm. I know that one. Yes", "Yes"),
    (YES_NO, "\\boxed{No}", "No"),
    (YES_NO, "It depends.", None),
    (YES_NO, "Yes and no.", None),
    (YES_NO, "yes! no wait, no.", "No"),
    (None, "True", "True"),
    (None, "false.", "False"),
    (None, "That statement is true.", "True"),
    (None, "The statement is not true.", "False"),
    (None, "This is incorrect; the statement is false.", "False"),
    (None, "It's true that many believe it, but the statement is false.", "False"),
    ({"A": "12", "B": "14", "C": "21", "D": "41"}, "14", "B"),
    ({"A": "12", "B": "14", "C": "21", "D": "41"}, "12 + 2 = 14", "B"),
    ({"A": "12", "B": "14", "C": "21", "D": "41"}, "The answer is 14, not 12.", "B"),
    ({"A": "12", "B": "14", "C": "21", "D": "41"}, "The answer is 21.", "C"),
    ({"A": "12", "B": "14", "C": "21", "D": "41"}, "\\boxed{14}", "B"),
    ({"A": "12", "B": "14", "C": "21", "D": "41"}, "D) 41", "D"),
    ({"A": "12", "B": "14", "C": "21", "D": "41"}, "114", None),
    ({"A": "1/2", "B": "1/3", "C": "1/4", "D": "1/6"}, "The answer is 1/3.", "B"),
    ({"A": "$5", "B": "$15", "C": "$25", "D": "$50"}, "It costs $15.", "B"),
    ({"A": "$5", "B": "$15", "C": "$25", "D": "$50"}, "Answer: C", "C"),
    ({"1": "iron", "2": "gold", "3": "lead"}, "2", "2"),
    ({"1": "iron", "2": "gold", "3": "lead"}, "Option 2", "2"),
    ({"1": "iron", "2": "gold", "3": "lead"}, "The answer is 3.", "3"),
    ({"1": "iron", "2": "gold", "3": "lead"}, "(1)", "1"),
    ({"1": "iron", "2": "gold", "3": "lead"}, "It is gold.", "2"),
    ({"A": "York", "B": "New York", "C": "Newark"}, "New York", "B"),
    ({"A": "York", "B": "New York", "C": "Newark"}, "It is New York.", "B"),
    ({"A": "York", "B": "New York", "C": "Newark"}, "York.", "A"),
    ({"A": "York", "B": "New York", "C": "Newark"}, "The answer is Newark.", "C"),
    ({"A": "acid", "B": "base", "C": "salt"}, "HCl is an acid.", "A"),
    ({"A": "acid", "B": "base", "C": "salt"}, "A base is what it is: the answer is B.", "B"),
    (TEN, "The answer is C because I computed the integral.", "C"),
    (TEN, "The answer is (I).", "I"),
    (TEN, "I", "I"),
    (TEN, "I am sure that it is J.", "J"),
    (TEN, "Answer: F", "F"),
    (TEN, "A quick look says H. The answer is H.", "H"),
    (TEN, "E. five", "E"),
    (TEN, "I would say G, as does my colleague.", "G"),
    ({"A": "B", "B": "A"}, "B", "B"),
    ({"A": "True", "B": "False"}, "True", "A"),
    ({"A": "True", "B": "False"}, "The answer is B.", "B"),
    ({"A": "Yes", "B": "No"}, "No", "B"),
    ({"A": "Yes", "B": "No"}, "A", "A"),
    ({"A": "All of the above", "B": "heat", "C": "light"}, "All of the above.", "A"),
    ({"A": "heat", "B": "light", "C": "None of the above"}, "None of the above", "C"),
    ({"A": "heat", "B": "light", "C": "sound"}, "The radiator gives off heat.", "A"),
    ({"a": "cat", "b": "dog", "c": "cow"}, "The answer is b.", "b"),
    ({"a": "cat", "b": "dog", "c": "cow"}, "B", "b"),
    ({"a": "cat", "b": "dog", "c": "cow"}, "(C) cow", "c"),
    (["Entailment", "Neutral", "Contradiction"], "Contradiction", "Contradiction"),
    (["Entailment", "Neutral", "Contradiction"], "The label is neutral.", "Neutral"),
    (["Entailment", "Neutral", "Contradiction"], "This is no contradiction: entailment.", "Entailment"),
    (["positive", "negative"], "The sentiment is positive.", "positive"),
    (["positive", "negative"], "Negative, with a positive note at the end.", "negative"),
    (["positive", "negative"], "not negative", "positive"),
]  # fmt: skip


def rows() -> Iterator[Row]:
    """All rows, in a fixed order."""
    turn = 0
    for template in BARE:
        turn += 1
        yield from pair(template, "bare", "en", turn)
    for kind, by_language in STATED.items():
        for language, templates in by_language.items():
            for template in templates:
                turn += 1
                yield from pair(template, kind, language, turn)
    for language, templates in UNDECIDED.items():
        for template in templates:
            turn += 1
            labelled, answer, _ = filled(template, language, turn)
            yield row(labelled, answer, "ABCD"[turn % 4], None, "undecided", language)
    for choices, answer, stated in SINGLES:
        labels = list(choices) if choices else ["True", "False"]
        yield row(choices, answer, stated or labels[0], stated, "other options", "en")
        if stated:
            wrong = next(label for label in labels if label != stated)
            yield row(choices, answer, wrong, stated, "other options", "en")


def filled(template: str, language: str, turn: int) -> tuple[dict[str, str], str, str]:
    """(options by letter, the answer, the letter that it states)."""
    texts = OPTIONS[language][turn % len(OPTIONS[language])]
    places = [(turn * 3 + shift) % 4 for shift in range(4)]
    stated, second, third, fourth = places
    labels = "ABCD"
    answer = template.format(
        L=labels[stated],
        l=labels[stated].lower(),
        T=texts[stated],
        M=labels[second],
        U=texts[second],
        N=labels[third],
        V=texts[third],
        O=labels[fourth],
        X=texts[fourth],
    )
    return dict(zip(labels, texts, strict=True)), answer, labels[stated]


def pair(template: str, kind: str, language: str, turn: int) -> Iterator[Row]:
    """The row in which the stated option is right, and one in which another is."""
    choices, answer, stated = filled(template, language, turn)
    others = [label for label in choices if label != stated]
    yield row(choices, answer, stated, stated, kind, language)
    yield row(choices, answer, others[turn % 3], stated, kind, language)


def row(
    choices: object, answer: str, right: str, stated: str | None, kind: str, language: str
) -> Row:
    facts = {"answer": right}
    if choices is not None:
        facts["choices"] = choices
    score = int(right == stated)
    return {
        "judge": "choice",
        "facts": facts,
        "answer": answer,
        "score": score,
        "kind": kind,
        "language": language,
    }
