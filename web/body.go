package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	maxBody  = 64 << 10 // bytes of a request that is not events
	bodyTime = 10 * time.Second
)

// readBody reads the whole body of a request, at most so many bytes and not for ever.
func readBody(c echo.Context, most int64) ([]byte, error) {
	if err := http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Now().Add(bodyTime)); err != nil {
		return nil, fmt.Errorf("bound the time of a body: %w", err)
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("body: want at most %d bytes", most)}
	case err != nil:
		return nil, badRequest("body: it could not be read to its end")
	}
	return body, nil
}

// readJSON reads a body into a struct, of which it must have no other fields. want is an example for who got it wrong.
func readJSON(c echo.Context, into any, want string) error {
	body, err := readBody(c, maxBody)
	if err != nil {
		return err
	}
	if err := strictJSON(body, into); err != nil {
		return badRequest("body: want JSON such as " + want)
	}
	return nil
}

func strictJSON(body []byte, into any) error {
	if !json.Valid(body) || bytes.Equal(bytes.TrimSpace(body), []byte("null")) { // one value, which says something, and nothing behind it
		return errors.New("not a JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
