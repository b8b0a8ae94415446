# The image holds one static program and the certificates that it verifies others by.
FROM golang:1.26-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /feedrenderer ./cmd/feedrenderer

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /feedrenderer /feedrenderer
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/feedrenderer"]
CMD ["serve"]
