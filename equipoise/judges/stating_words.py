"""Words by which sentences state, weigh and deny an option, in fifteen languages.

Each pattern is anchored at the option: those named "before" end where it begins, those named
"after" begin where it ends.
"""

import re

LETTERS_THAT_ARE_WORDS = frozenset("AIEOYUКАВСОИЯ")

# What may follow such a letter in a sentence, where it is the letter and not the word.
GOES_ON = (
    r"(?:because|since|as|is|isn't|are|was|and|for|or|nor|but|rather|instead|therefore"
    r"|thus|so|to|it"
    r"|fits|seems|looks|must|can't|cannot|with|comes|holds"
    r"|ist|und|oder|sondern|passt|auch|et|ou|mais|est|n'est|ne|y|o|es|pero|sino|no|é|e|mas"
    r"|não|está"
    r"|è|ma|non|nemmeno|tampoco|want|omdat|niet|bo|ponieważ|jest|şık\w*|seçene\w*|çünkü"
    r")\b|[-–—+=<(]|[\u0400-\u04ff\u0600-\u06ff]"
)

# "no doubt" is no answer.
DETERMINER = re.compile(r"no(?= (?!wait|actually|it|because|since|as|the|this|that|i )[a-z])")

OPENING = r"[\s\"'(\[{$_<（「『【]*"

AND_OR = (
    r"(?:\b(?:or maybe|or perhaps|or possibly|and|or|nor|und|oder|noch"
    r"|et|ou|ni|soit|y|o|u|e|nem|né|и|или|либо|ни)\b"
    r"|和|与|及|或者?|また?は|か|と|또는|와|과|أو|و)"
)
JOINS = re.compile(
    rf"[\s)\]}}\"'）」]*(?:(?:,|/|&|、|،|，)\s*{AND_OR}?|{AND_OR})"
    r"\s*(?:(?:option|choice|both|also)\s)?[\s(\[{\"'（「]*",
    re.IGNORECASE,
)

DENIES_BEFORE = re.compile(
    r"(?:"
    # English
    r"(?:\bnot\b|n't\b|\bnever\b|\bcannot\b|\bneither\b|\bno\b(?!,)|\brather than\b"
    r"|\binstead of\b"
    r"|\beliminat\w*:?|\brul(?:e|ed|ing) out:?|\bexclud\w*:?|\bdiscard\w*:?|\bunlike\b"
    r"|\b(?:people|students|many|others) (?:often )?(?:choose|pick|say|think)\b)"
    r"(?: (?!but\b)[\w'-]+){0,5}"
    # Dutch, Polish
    r"|\b(?:niet|geen|in plaats van|nie|zamiast)(?: \w+){0,1}"
    # German, French, Spanish, Portuguese, Italian
    r"|\b(?:nicht|kein\w*|statt|anstatt|weder|anstelle von)(?: \w+){0,1}"
    r"|\b(?:n'est pas|ne sont pas|pas|plutôt que|au lieu de|ni)(?: la| le)?"
    r"|\b(?:no es|no son|no|en lugar de|en vez de|tampoco|ni)(?: la| el)?"
    r"|\b(?:não é|não|em vez de|ao invés de|nem)(?: a| o)?"
    r"|\b(?:non è|non|invece di|anziché|né)(?: la| il)?"
    # Russian, Chinese, Japanese, Korean, Arabic
    r"|(?<!\w)(?:а не|не|вместо|ни)(?: вариант)?"
    r"|(?:不是|并非|排除|而不是)|(?:ليس|ليست|وليس|بدلا من|بدلًا من|لا)"
    r")\s*" + OPENING + r"$",
    re.IGNORECASE,
)

VERDICT_AGAINST = (
    r"(?:wrong|incorrect|not|false|mistaken|out|unrelated|impossible"
    r"|a (?:\w+ )?(?:distractor|mistake|trap))"
)
DENIES_AFTER = re.compile(
    r"[\s).\]\"'）」}:;-]*(?:"
    rf"(?:is|was|are|were|seems?|looks?) (?:all |both |clearly |also )?{VERDICT_AGAINST}\b"
    r"|(?:isn't|aren't|doesn't|don't|does not|do not|can't|cannot|won't|wasn't|didn't)\b"
    r"|(?:wrong|incorrect|eliminated|no)\b(?=[.;,\n]|$)"
    r"|(?:might|may|hardly)\b"
    r"|[^.!?\n]{0,30}\?\s*(?:no|nope|nah|nein|nee|non|não|нет)\b"
    r"|(?:ist|sind|wäre) (?:leider |auch )?(?:falsch|nicht|ein häufiger|unpassend)"
    r"|is (?:fout|onjuist|verkeerd|niet)|klopt niet|(?:jest|to) (?:błęd|niepopraw|nie )"
    r"|yanlış|değil|(?:गलत|ग़लत|नहीं)"
    r"|passt nicht|auch nicht"
    r"|(?:est|sont) (?:faux|fausse|incorrect|erroné|une erreur)|n'est pas|ne convien"
    r"|ne \w+ pas|non plus"
    r"|(?:es|son|está) (?:incorrect|fals|erróne|un error|equivocad)|no (?:es|encaja|puede"
    r"|sirve)|tampoco"
    r"|(?:é|está|são|estão) (?:errad|incorret|fals|um erro)|não (?:é|serve|pode|está)"
    r"|também não"
    r"|(?:è|sono) (?:sbagliat|errat|scorrett|fals|un errore)|non (?:è|va|può|sono)|nemmeno"
    r"|(?:—|-|это)? ?(?:неверн|неправильн|не верн|не подходит|ошибк|частая ошибка|тоже нет"
    r"|тоже)"
    r"|(?:选项)?(?:是)?(?:错误|错的|不对|不正确|常见的错误|也不对|也不)"
    r"|(?:は|が|も)(?:間違|違|誤|よくある間違|不正解|正しくな)|では(?:なく|ありません|ない)"
    r"|(?:는|은|가|이|도)? ?(?:아니|틀|오답|흔한 오답|잘못)"
    r"|(?:خطأ|غير|كذلك|ليس|خاطئ)"
    r")",
    re.IGNORECASE,
)

TENTATIVE = re.compile(
    r"(?:"
    r"\b(?:at first|initially|first (?:thought|instinct|guess)|i was going to say|i(?:'d"
    r"| would)? (?:first|have) "
    r"(?:say|said|thought)|came to mind|(?:could|might|may|can) (?:also )?be|i thought"
    r"|perhaps|maybe|possibly"
    r"|tempt\w+ to (?:say|choose|pick))"
    r"|\b(?:zuerst|anfangs|erst) (?:dachte|hielt)|\b(?:könnte|vielleicht)"
    r"|\b(?:je pensais|au début|pourrait être|peut-être)"
    r"|\b(?:primero pensé|al principio|podría ser|quizás)"
    r"|\b(?:primeiro pensei|a princípio|poderia ser|talvez)"
    r"|\b(?:prima pensavo|all'inizio|potrebbe essere|forse)"
    r"|(?:сначала|может быть|возможно)|(?:最初|起初|也许|可能)"
    r"|(?:最初は|かもしれ)|(?:처음에는|아마)|(?:ظننت"
    r"|ربما|في البداية)"
    r")[^.!?。！？\n]{0,40}$",
    re.IGNORECASE,
)

ADVERB = (
    r"(?: (?:\w+ly|therefore|thus|then|hence|indeed|actually|now|probably|still"
    r"|most \w+ly))?"
)
IS = (
    rf"(?: is| are| was|'s| be| seems to be| appears to be| would{ADVERB} be| should be"
    rf"| must be| has to be| will be| here would be)"
)
DECLARES_BEFORE = re.compile(
    r"(?:"
    # English
    rf"\b(?:answer|choice|option|solution|selection|pick|one|label|sentiment|statement"
    rf"|claim|verdict){IS}{ADVERB}:?"
    r"|\b(?:ans|answers?|choice|option|solution|selection|pick|conclusion|correction|corrected"
    r"|final|answer is|label) ?[:=–-]"
    r"|\b(?:answer|choice)(?=\s*\n)"
    rf"|\b(?:it|that|this|which)(?: is|'s| must be| has to be| was){ADVERB}(?: clearly)?"
    r"|\b(?:it's|that's|has to be|must be)"
    r"|\b(?:thus|hence|therefore|so|consequently|accordingly|finally)[,:]?(?: it must be"
    r"| the answer)?"
    r"|\b(?:choose|select|pick|go with|going with|opt for|vote for|settle on|choosing"
    r"|picking|selecting|say)"
    r"|\b(?:conclude(?: that)?|leaves(?: us with)?|leaving|left with|looks like|gives us"
    r"|but(?: rather)?)"
    r"|\b(?:wait|actually|no|hmm|rather|correction|instead)(?:, (?:no|wait|actually))*[,:]?"
    # German
    r"|\b(?:antwort|lösung)(?: (?:ist|lautet|wäre)|:)(?: antwort| option)?|\brichtig ist"
    r"|\bes ist|\bdas ist"
    r"|\b(?:also|daher|somit|folglich|deshalb)(?: ist)?,?|\b(?:für|wähle|nehme|sondern"
    r"|bleibt|nein)[:,]?"
    # Dutch, Polish, Turkish, Hindi
    r"|\b(?:antwoord|optie|keuze)(?: \w+)?(?: is|:)(?: optie)?"
    r"|\b(?:het is|het moet|dus|kies(?: voor)?)"
    r"|\b(?:odpowiedź|odpowiedzią)(?: \w+)?(?: to| jest|:)?|\b(?:wybieram|tylko|lecz|więc)"
    r"|\b(?:cevap|cevabım|yanıt|seçenek)(?: olarak|:)?|(?:उत्तर|जवाब)(?: है|:)?"
    # French
    r"|\bréponse(?: \w+)?(?: est| ?:)(?: donc)?(?: la| le)?|\bc'est(?: la| le)?|\b(?:donc"
    r"|choisis|opte pour|mais|non)(?: ?[:,])?"
    r"|\bil s'agit de"
    # Spanish
    r"|\b(?:respuesta|opción)(?: \w+)?(?: es|:)(?: la| el)?|(?<!\w)es(?: la| el)?"
    r"|\b(?:elijo|escojo|por lo tanto|así que|sino|pero)[,:]?"
    # Portuguese
    r"|\b(?:resposta|alternativa|opção)(?: \w+)?(?: é|:)(?: a| o)?|(?<!\w)é(?: a| o)?"
    r"|\b(?:escolho|portanto|mas|logo)[,:]?"
    # Italian
    r"|\b(?:risposta|opzione)(?: \w+)?(?: è|:)(?: la| il)?|(?<!\w)è(?: la| il)?"
    r"|\b(?:scelgo|quindi|dunque|ma)[,:]?"
    # Russian
    r"|(?:ответ|вариант)(?: ?[:—-])?|это|выбираю(?: вариант)?|следовательно,?|значит,?"
    r"|(?<!\w)а|подождите:?|нет:"
    # Chinese
    r"|答案(?:应该)?(?:是|为|：|:)|应该?(?:是|选|为)|选择?项?|故选|(?:而|^|，|。|\n)是|正确的?是"
    # Japanese
    r"|(?:答え|正解|回答|解答)(?:は|：|:)|したがって、?|よって、?|ではなく、?|(?:待って|なので|から)、|選択肢"
    # Korean
    r"|(?:정답|답)(?:은|:|：)|따라서,?|아니라|잠깐,|틀렸으므로|선택지는"
    # Arabic
    r"|(?:الجواب|الإجابة|الخيار)(?: الصحيحة?)?(?: هو| هي|:)?|إذن|أختار|بل|لكن"
    r")\s*(?:(?:the )?(?:option|choice|letter|answer)\s*)?" + OPENING + r"$",
    re.IGNORECASE,
)

DECLARES_AFTER = re.compile(
    r"[\s).\]\"'）」}]*(?:"
    r"(?:is|are|was|would be|must be|seems) (?:the |clearly |therefore |also |both "
    r"|my )*(?:correct|right|best|true|answer|only|one|final|choice)\b"
    r"|it is\b|remains\b|is left\b|wins\b|fits(?: best)?\b|comes closest|holds\b|as the answer"
    r"|to me\b"
    r"|ist (?:die |also )?(?:richtig|korrekt|beste)|est (?:la |le |donc )?(?:correct|bonne"
    r"|juste|exact|vrai)"
    r"|es (?:la |el )?(?:correct|verdader)|(?:está|é) (?:a )?(?:corret|cert)"
    r"|è (?:la )?(?:corrett|giust|esatt)"
    r"|(?:—|-)? ?(?:верно|верен|верна|правильн)|(?:是|为)?(?:正确|对的)|(?:が正し|が正解|を選|です)"
    r"|(?:가|이) 맞|(?:를|을) 선택|입니다|(?:هو |هي )?(?:ال)?صحيح"
    r")",
    re.IGNORECASE,
)

ENDS_BY = re.compile(r"(?:\bis|:|=)\s*" + OPENING + r"$")

# "The statement that is not true is (F)."
NAMES_EXCEPTION = re.compile(
    r"\b(?:statement|option|choice|one|item|sentence|example)s? (?:that|which) "
    r"(?:is|are|was|were|do|does|can)(?: ?not|n't) (?:[\w'-]+ ){0,5}(?:is|are)\s*" + OPENING + r"$",
    re.IGNORECASE,
)

OFF_THE_LIST = re.compile(
    r"\bnone of the (?:given |provided |above |listed |available |answer )*"
    r"(?:options|choices|answers|above)\b"
    r"|\b(?:not|n't) (?:\w+ )?(?:among|in|on|listed|included|one of) (?:\w+ ){0,3}"
    r"(?:options|choices|list|answers)\b"
    r"|\b(?:options|choices|list) (?:do|does) not (?:include|contain)\b",
    re.IGNORECASE,
)
