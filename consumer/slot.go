package consumer

import "strings"

// tag is the part of a key that the cluster hashes: what stands between the first brace and the next closing one, if
// that is not empty; otherwise the whole key.
func tag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if t, _, ok := strings.Cut(rest, "}"); ok && t != "" {
			return t
		}
	}
	return key
}

// sibling is stream's name with a suffix, in stream's hash slot: the stream's own tag serves if it has one.
func sibling(stream, suffix string) string {
	if tag(stream) != stream {
		return stream + suffix
	}
	return "{" + stream + "}" + suffix
}

// slot is the cluster hash slot of a key: CRC16 (XMODEM) of its tag, modulo 16384.
func slot(key string) uint16 {
	var crc uint16
	for _, b := range []byte(tag(key)) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}
