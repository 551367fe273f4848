# CPU:   docker build -t equipoise .
# CUDA:  docker build -t equipoise:cuda --build-arg TORCH=cu130 .
# Then:  docker run --rm -v "$PWD/runs:/work/runs" equipoise run quickstart
FROM python:3.13-slim

# The build of torch: cpu, or a CUDA version as https://download.pytorch.org/whl names it.
ARG TORCH=cpu

WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY equipoise equipoise
RUN pip install --no-cache-dir -c constraints.txt \
        --extra-index-url "https://download.pytorch.org/whl/${TORCH}" \
        "torch==$(sed -n 's/^torch==//p' constraints.txt)+${TORCH}" \
        '.[train,endpoints,serve,structured,trackers,gguf,instructions,benchmarks]' \
    && useradd --create-home --uid 1000 player \
    && mkdir -p /work/runs \
    && chown -R 1000 /work

USER 1000
WORKDIR /work
ENTRYPOINT ["equipoise"]
CMD ["--help"]
