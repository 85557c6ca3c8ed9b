package redact

// Action is what happens to what a rule finds.
type Action string

// Actions.
const (
	// Remove drops the attribute; inside a text it cuts out what was found,
	// for Names together with the name.
	Remove Action = "remove"
	// Mask puts Rule.Text in its place. It keeps nothing, not even the length.
	Mask Action = "mask"
	// Keep leaves the last Rule.Keep characters behind three asterisks. What
	// has fewer than twice as many characters is masked with nothing left.
	Keep Action = "keep"
	// Hash puts a keyed hash in its place; see [Hashing].
	Hash Action = "hash"
	// Truncate leaves the first Rule.Length characters.
	Truncate Action = "truncate"
	// Network leaves an IP address's network: Rule.V4 and Rule.V6 leading
	// bits. For the detector [IP] only.
	Network Action = "network"
)

// Detector names a scanner for one class of sensitive text.
type Detector string

// Detectors. The ones that Default leaves out are marked optional: they are
// useful where the data is known, and wrong too often where it is not.
const (
	Userinfo   Detector = "userinfo"    // user and password of a URL or DSN: scheme://user:password@host
	Email      Detector = "email"       // e-mail address, @ also as %40
	Card       Detector = "card"        // payment card: 13–19 digits, issuer range, Luhn; also as an int64 or a whole float64
	JWT        Detector = "jwt"         // JSON Web Token (RFC 7519), signed or encrypted
	Bearer     Detector = "bearer"      // credentials after the words Bearer and Basic (RFC 6750, 7617)
	APIKey     Detector = "api-key"     // keys with a known prefix: AWS, GitHub, GitLab, Slack, Stripe, Google, npm, OpenAI and their like
	PrivateKey Detector = "private-key" // PEM block of a private key, closed or cut off
	IBAN       Detector = "iban"        // ISO 13616: country's length, mod 97
	Phone      Detector = "phone"       // E.164: + and 8–15 digits
	Query      Detector = "query"       // literals of SQL, values of JSON queries, arguments of commands; needs Keys
	IP         Detector = "ip"          // optional: IPv4 and IPv6 addresses
	SSN        Detector = "us-ssn"      // optional: social security number of the USA, with dashes
	Entropy    Detector = "entropy"     // optional: words of 24 or more characters that look random
)

// Rule says what to look for, where, and what to do with it. It has one of
// four forms:
//   - Keys alone: the whole value of attributes with such a key;
//   - Names (Keys may come with it): the value behind such a name inside any
//     text: a parameter of a URL, a field of JSON, a header, name=value;
//   - Detect: what the detector finds inside texts, with Keys only in values
//     of those keys;
//   - Pattern: the same for a regular expression; if it has a group, only the
//     first group's text is replaced.
//
// Keys, Names and Except hold patterns. They ignore the case of ASCII letters;
// * stands for any characters; - or _ for any number of -, _ and spaces, or
// none (api_key is also apiKey and API-Key). A pattern without a dot also
// matches the last part of a dotted key: password is also app.db.password.
type Rule struct {
	// Name identifies the rule in errors and Stats. Required, unique.
	Name    string   `json:"name"`
	Keys    []string `json:"keys,omitempty"`
	Names   []string `json:"names,omitempty"`
	Detect  Detector `json:"detect,omitempty"`
	Pattern string   `json:"pattern,omitempty"` // RE2; may not match the empty string
	// Except holds keys in whose values Names, Detect and Pattern do not look,
	// and to which Keys does not apply.
	Except []string `json:"except,omitempty"`

	Do     Action `json:"do"`
	Text   string `json:"text,omitempty"`   // Mask: default "REDACTED" (what semantic conventions use), "?" for Query
	Keep   int    `json:"keep,omitempty"`   // Keep: characters, 1–64, default 4
	Length int    `json:"length,omitempty"` // Truncate: characters, at least 1
	V4     int    `json:"v4,omitempty"`     // Network: leading bits, 1–32, default 24
	V6     int    `json:"v6,omitempty"`     // Network: leading bits, 1–128, default 48
}

// AllowList lets only listed keys out, of attributes and of the resource.
// Everything else is dropped and counted. Rules hold for what is allowed, too.
type AllowList struct {
	// Keys are patterns as in Rule, but match the whole key only.
	Keys []string `json:"keys,omitempty"`
	// Safe adds SafeKeys.
	Safe bool `json:"safe,omitempty"`
}

// Hashing configures the action Hash: HMAC-SHA-256 (RFC 2104), truncated. The
// same value gives the same token under one key, so that spans can still be
// joined by it. Truncation limits nothing but size: values that can be
// guessed, such as card numbers, are protected by the key alone.
//
// A token is hmac-ID-HEX; HEX is Bits of the hash and 16 bits that prove
// (to the holder of the key) that it is a token, so that it is not hashed again.
//
// To rotate: deploy the new key with a new ID. Tokens of both generations are
// told apart by ID; to join across the change, hash the known values with both
// keys off-line, or accept that history ends there. Destroying a key makes its
// tokens anonymous.
type Hashing struct {
	// Exactly one source; at least 16 bytes. White space around the contents
	// of the variable and the file is not part of the key.
	Key     string `json:"key,omitempty"`
	KeyEnv  string `json:"key_env,omitempty"`  // environment variable
	KeyFile string `json:"key_file,omitempty"` // path
	// ID names the key: up to 8 lower-case letters and digits, none by default.
	ID string `json:"id,omitempty"`
	// Bits of the hash that a token shows: 64–256, a multiple of 8, default 96.
	Bits int `json:"bits,omitempty"`
}

// Config is what a Redactor is made of.
type Config struct {
	// Rules, by falling priority: of several Keys rules for one key, Names
	// rules for one name, or Detect rules for one detector and key, the first
	// holds. Patterns are applied in order, before detectors.
	Rules []Rule
	// Allow, if not nil, switches to allow-list mode.
	Allow *AllowList
	Hash  Hashing
}
