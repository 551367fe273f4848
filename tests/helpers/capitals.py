"""Questions on capitals, each with a whole answer and the right word in it."""

CITIES = {
    "France": "Paris",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Japan": "Tokyo",
    "Kenya": "Nairobi",
    "Peru": "Lima",
    "Chile": "Santiago",
    "Norway": "Oslo",
    "Sweden": "Stockholm",
    "Poland": "Warsaw",
    "Egypt": "Cairo",
    "Ghana": "Accra",
}
MORE_CITIES = CITIES | {"India": "Delhi", "Nepal": "Kathmandu"}
ROWS = [
    {
        "prompt": f"What is the capital of {country}, in a whole sentence?",
        "response": f"The capital of {country} is {city}.",
        "answer": city,
    }
    for country, city in CITIES.items()
]
