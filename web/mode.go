package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/codemojex/feedrenderer/feed"
)

// mode states how a game is played, where no event says it any more: {"mode": "classic"}. It answers the game.
func (s *Server) mode(c echo.Context) error {
	key, err := s.key(c)
	if err != nil {
		return err
	}
	if s.config.SetMode == nil {
		return errNoSuch
	}
	var body struct {
		Mode string `json:"mode"`
	}
	if err := readJSON(c, &body, `{"mode": "classic"}`); err != nil {
		return err
	}
	mode := feed.ParseMode(body.Mode)
	if mode == feed.ModeUnknown {
		return badParam("mode", body.Mode, "classic, golden or blind")
	}
	ctx := c.Request().Context()
	if err := s.config.SetMode(ctx, key, mode); err != nil {
		return err
	}
	game, err := s.config.Timeline.Game(ctx, key)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, game)
}
