package redact

import "strings"

// ibanRegistry has the length of an IBAN by country (SWIFT, IBAN registry).
const ibanRegistry = `AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28
EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20
LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29
RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30`

var ibanLengths = func() (lengths [26][26]uint8) {
	for _, f := range strings.Fields(ibanRegistry) {
		lengths[f[0]-'A'][f[1]-'A'] = 10*(f[2]-'0') + f[3] - '0'
	}
	return lengths
}()

// ibanAt looks at digits that begin at i, behind a country's two letters, and
// takes an IBAN (ISO 13616) that has its country's length and check digits.
func (p *pass) ibanAt(i int) int {
	s, start := p.s, i-2
	if start < p.done || !isLetter(s[start]) || !isLetter(s[i-1]) || isAlnum(p.before(start)) {
		return 0
	}
	want := int(ibanLengths[lower(s[start])-'a'][lower(s[i-1])-'a'])
	if want == 0 {
		return 0
	}
	var text [34]byte
	n, at := 0, start
	for n < want {
		if at >= len(s) {
			return 0
		}
		if isAlnum(s[at]) {
			text[n] = s[at]
			n++
			at++
			continue
		}
		length, _ := separator(s, at)
		if length == 0 || n < 4 {
			return 0
		}
		at += length
		if at >= len(s) || !isAlnum(s[at]) {
			return 0
		}
	}
	if isAlnum(p.after(at)) || !isDigit(text[2]) || !isDigit(text[3]) || mod97(text[:want]) != 1 {
		return 0
	}
	return p.found(start, at, p.by.iban)
}

// mod97 reads the text with its first four characters last, letters as 10–35.
func mod97(text []byte) int {
	rest := 0
	for i := range text {
		c := text[(i+4)%len(text)]
		if isDigit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c|0x20-'a') + 10) % 97
		}
	}
	return rest
}
