# The page, then the package with it. The database is another container's: see docker-compose.yml.

FROM node:22-slim AS page
WORKDIR /build/panel
COPY panel/package.json panel/package-lock.json panel/.npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY panel ./
RUN npm run build

FROM python:3.11-slim
WORKDIR /build
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml hatch_build.py README.md LICENSE alembic.ini ./
COPY migrations ./migrations
COPY src ./src
COPY --from=page /build/src/turnback/panel ./src/turnback/panel
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
    && useradd --create-home turnback \
    && install --directory --owner turnback /home/turnback/attachments
USER turnback
WORKDIR /home/turnback
EXPOSE 8700
STOPSIGNAL SIGTERM
ENTRYPOINT ["turnback"]
CMD ["serve"]
