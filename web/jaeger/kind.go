package jaeger

// kinds are OTLP's span kinds by number, as Jaeger writes them; it has no name for
// unspecified.
var kinds = []string{"", "internal", "server", "client", "producer", "consumer"}

func kindName(k int32) string {
	if k < 0 || int(k) >= len(kinds) {
		return ""
	}
	return kinds[k]
}

func kindNumber(name string) int32 {
	for i, k := range kinds {
		if i > 0 && k == name {
			return int32(i)
		}
	}
	return 0
}
