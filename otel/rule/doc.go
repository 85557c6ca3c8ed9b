// Package rule matches spans by name, kind and attributes. Samplers use it to
// choose a rate, package keep to choose what stays.
//
// A rule is a [Spec], in Go or as JSON, compiled once. All its conditions must
// hold; text is matched exactly, by a glob, or by a regular expression behind a
// tilde ([CompilePattern]):
//
//	{"name":"GET /health*", "kind":"server",
//	 "attributes":{"url.path":"/auth/**", "http.route":"~^/v[0-9]+/login$"}}
//
// In a [List] the first rule that matches decides, so exceptions stand before
// what they are exceptions from.
//
// Matching takes no lock and allocates nothing, so it can stand on the path of
// every request. Regular expressions are RE2 and globs do not backtrack
// exponentially: no text that a client sends can make a rule slow beyond the
// square of the text's length.
//
// # What it refuses
//
// Empty patterns, unknown kinds, unknown JSON fields and anything behind the
// JSON value are errors that name the rule and the condition. There is no
// negation: put the exception first.
//
// A glob's * stops at a slash. /auth/** does not match /auth itself; /auth**
// does, and /authors too. Where that matters (a rule that keeps something out
// of traces), write two rules.
package rule
