// Package redact keeps sensitive values from leaving a service in its spans:
// in names, attributes, events with their exception messages and stack traces,
// links, status descriptions, the scope and the resource.
//
//	r, err := redact.New(redact.Default()) // or the Config of FromEnv, Load, Parse
//	…
//	provider := sdktrace.NewTracerProvider(
//		sdktrace.WithBatcher(redact.NewExporter(exporter, r)),
//	)
//
// NewExporter works in the goroutine of the batch, off the request's path;
// NewProcessor in the one that ends the span. A pipeline that is not the SDK's
// calls Text, Name, Attribute and Resource itself, as it writes, or asks a [Key]
// where its values are others than the SDK's.
//
// # Rules
//
// A [Rule] finds by attribute key (Keys), by name inside a text (Names:
// parameters of URLs, fields of JSON, headers, name=value, --name value, XML
// elements; plain, in escaped JSON, and percent-encoded), by detector (Detect)
// or by regular expression (Pattern). It removes, masks, keeps the last
// characters, hashes with a key, truncates, or cuts IP addresses to their
// network. A key rule wins over what is inside the value. Detectors are
// scanners written by hand that walk a text once, all together; each pattern
// walks it once more, but only if the text holds a literal that the pattern
// cannot match without.
//
// Redacting twice gives what redacting once gives. Valid UTF-8 stays valid.
//
// # Default
//
//	rule            finds                                                         does
//	credentials     keys and names: password, secret, token, api key, cookie …   mask
//	signatures      names: sig, signature, X-Amz-Credential, AWSAccessKeyId …    mask
//	user            keys enduser.*, user.id, user.email, user.name …             mask
//	command-line    keys process.command_args, process.command_line …            remove
//	client-address  IP addresses in client.address, network.peer.address …       cut to /24 and /48
//	query           literals in db.query.text, db.statement                       ?
//	userinfo        user and password in scheme://user:password@host              mask
//	private-key     PEM blocks of private keys                                    mask
//	jwt             JSON Web Tokens                                               mask
//	bearer          what follows Bearer, and Basic with user:password            mask
//	api-key         AWS, GitHub, GitLab, Slack, Stripe, Google, npm … keys       mask
//	email           e-mail addresses                                              mask
//	card            payment card numbers, also in int64 and float64              mask
//	iban            IBANs                                                         mask
//	phone           phone numbers with + and country                              mask
//
// Not in it, because they are wrong too often where data is unknown: [IP] in
// any text, [SSN], [Entropy]. The mask is REDACTED, as the semantic conventions
// write it; for queries ?. Users are masked because Default knows no key to
// hash with; to hash them instead:
//
//	{
//	  "rules": [{"name": "user", "keys": ["enduser.*", "user.*"], "do": "hash"}],
//	  "hash": {"key_file": "/run/secrets/redact", "id": "a"}
//	}
//
// # Types
//
// Integers and whole floats are looked at for cards, which services keep in
// them: the ranges of issuers and the check digit let one in some hundred
// random numbers of 16 digits pass for a card; none that begins with 1, as
// timestamps and snowflake ids do. Nothing else is looked for in numbers. What
// is redacted becomes a string. Arrays are redacted element by element, maps
// and mixed slices in depth, with key rules for the keys inside. Bytes are
// looked into if they are UTF-8.
//
// # What it refuses, and what it misses
//
// It does not decode: a secret in base64, in hexadecimal, compressed, encrypted
// or split over two attributes leaves. It does not know people: names, birth
// dates, addresses of houses, and phone numbers of one country leave. What has
// neither a form nor a name (a password as the last part of a path) leaves.
// corpus.md, which the tests write, has what was measured by class and form of
// spelling. Whoever needs more than likelihood uses the allow list
// ([AllowList]): then only known keys leave, and rules look into those.
//
// Trace state, ids and times are not touched. A processor's OnStart sees spans
// as they are. Metrics and logs are other signals.
//
// # Cost
//
// A clean text costs one table look-up a byte and no allocation. Key rules cost
// the same however many they are: what they say of a key is remembered (for
// 1,024 keys of up to 128 bytes). A pattern with a literal costs a search for
// it; one without costs a run of the expression: bench_test.go measures both.
package redact
