package api

// kinds are OTLP's span kinds, by number.
var kinds = []string{"unspecified", "internal", "server", "client", "producer", "consumer"}

func kindName(k int32) string {
	if k < 0 || int(k) >= len(kinds) {
		return kinds[0]
	}
	return kinds[k]
}

// kindNumber is 0 for "" and for unknown kinds.
func kindNumber(name string) int32 {
	for i, k := range kinds {
		if k == name {
			return int32(i)
		}
	}
	return 0
}
