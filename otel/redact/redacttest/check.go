package redacttest

// The check digits are worked out here once more, so that a detector is not
// tested by itself.

// luhn reports whether the check digit of a card is right (ISO/IEC 7812-1).
func luhn(number []byte) bool {
	sum := 0
	for i := range number {
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// mod97 is 1 for a valid IBAN in capital letters (ISO 13616, ISO/IEC 7064).
func mod97(iban string) int {
	rest := 0
	for _, c := range []byte(iban[4:] + iban[:4]) {
		if isLetter(c) {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return rest
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
