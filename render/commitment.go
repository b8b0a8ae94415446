package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

const (
	codesOfSecret = 6
	maxSecret     = 4096 // bytes; six codes take fewer
	codeSeparator = "\x1e"
)

// commitmentHolds reports whether commitment is the SHA-256, in hex, of the six codes of secret and the nonce, all joined by byte
// 0x1E. Where the event names no commitment or no secret there is nothing to check.
func commitmentHolds(fields map[string]string) bool {
	commitment, committed := fields["commitment"]
	secret, revealed := fields["secret"]
	if !committed || !revealed {
		return true
	}
	if len(secret) > maxSecret {
		return false
	}
	return slices.ContainsFunc(readings(secret), func(codes []string) bool {
		sum := sha256.Sum256([]byte(strings.Join(append(codes, fields["nonce"]), codeSeparator)))
		return len(codes) == codesOfSecret && strings.EqualFold(commitment, hex.EncodeToString(sum[:]))
	})
}

// readings are the ways to read the codes of a secret. The wire does not say how they are written into one field: a JSON list of
// texts, or apart by bytes 0x1E, commas or spaces, or six characters side by side.
func readings(secret string) [][]string {
	var list []string
	if json.Unmarshal([]byte(secret), &list) != nil {
		list = nil
	}
	byComma := strings.Split(secret, ",")
	for i := range byComma {
		byComma[i] = strings.TrimSpace(byComma[i])
	}
	return [][]string{
		list,
		strings.Split(secret, codeSeparator),
		byComma,
		strings.Fields(secret),
		strings.Split(secret, ""),
	}
}
