package redact

import "slices"

// credentials are names that tell that what they name is a secret. The tail
// forms (*token) leave counts alone: gen_ai.usage.input_tokens, gen_ai.token.type.
var credentials = []string{
	"*password*", "*passwd*", "*passphrase*", "*passcode*", "pwd", "pass",
	"*secret*", "*credential*", "*private_key*", "*api_key*", "*access_key*", "*account_key",
	"*authorization", "auth", "*oauth", "*x_auth",
	"*token", "jwt", "bearer", "client_assertion", "saml_response",
	"cookie", "set_cookie", "*session_id", "session", "*sessid", "sid",
	"otp", "totp", "pin", "cvv", "cvc", "ssn",
}

// signatures occur as parameters of pre-signed URLs. The list that HTTP
// semantic conventions require is AWSAccessKeyId, Signature, sig,
// X-Goog-Signature.
var signatures = []string{"sig", "*signature", "*amz_credential", "awsaccesskeyid", "*goog_credential"}

// Default is the configuration for a team that has not yet thought of its own.
// The package comment shows it as a table.
func Default() Config {
	return Config{Rules: []Rule{
		{Name: "credentials", Keys: append(slices.Clone(credentials), "session.id", "session.previous_id"), Names: slices.Clone(credentials), Do: Mask},
		{Name: "signatures", Names: slices.Clone(signatures), Do: Mask},
		{Name: "user", Keys: []string{"enduser.*", "user.id", "user.email", "user.name", "user.full_name"}, Do: Mask},
		{Name: "command-line", Keys: []string{"process.command_args", "process.command_line", "container.command_args", "container.command_line"}, Do: Remove},
		{Name: "client-address", Detect: IP, Keys: []string{
			"client.address", "client.socket.address", "source.address", "network.peer.address", "http.client_ip", "net.peer.ip", "net.sock.peer.addr",
			"http.request.header.x-forwarded-for", "http.request.header.x-real-ip", "http.request.header.forwarded",
		}, Do: Network},
		{Name: "query", Detect: Query, Keys: []string{"db.query.text", "db.statement"}, Do: Mask},
		{Name: "userinfo", Detect: Userinfo, Do: Mask},
		{Name: "private-key", Detect: PrivateKey, Do: Mask},
		{Name: "jwt", Detect: JWT, Do: Mask},
		{Name: "bearer", Detect: Bearer, Do: Mask},
		{Name: "api-key", Detect: APIKey, Do: Mask},
		{Name: "email", Detect: Email, Do: Mask},
		{Name: "card", Detect: Card, Do: Mask},
		{Name: "iban", Detect: IBAN, Do: Mask},
		{Name: "phone", Detect: Phone, Do: Mask},
	}}
}

// SafeKeys are the keys that AllowList.Safe lets out: those of the semantic
// conventions (1.43, and the stable HTTP and database names' predecessors) that
// name code, infrastructure, protocol and outcome, not people or their data.
// Free text and full URLs are among them only where a trace is of little use
// without (exception.message, db.query.text, url.path); rules still apply.
func SafeKeys() []string {
	return []string{
		"service.*", "telemetry.*", "deployment.*", "cloud.*", "k8s.*", "container.name", "container.id", "container.image.*", "container.runtime.*",
		"host.name", "host.id", "host.arch", "host.type", "os.*", "process.pid", "process.executable.name", "process.runtime.*", "faas.name", "faas.version", "faas.instance", "faas.invoked_*", "faas.trigger", "faas.coldstart", "faas.max_memory", "thread.*",
		"http.request.method", "http.request.method_original", "http.request.resend_count", "http.request.size", "http.request.body.size",
		"http.response.status_code", "http.response.size", "http.response.body.size", "http.route", "http.method", "http.status_code", "http.scheme", "http.flavor",
		"http.request_content_length", "http.response_content_length", "url.scheme", "url.path", "url.template", "url.port",
		"server.address", "server.port", "network.*", "client.port", "net.host.name", "net.host.port", "net.peer.name", "net.peer.port", "net.transport", "user_agent.name", "user_agent.version", "user_agent.synthetic.type",
		"db.system", "db.system.name", "db.namespace", "db.name", "db.operation", "db.operation.*", "db.collection.name", "db.sql.table", "db.query.summary", "db.query.text", "db.statement",
		"db.response.*", "db.stored_procedure.name", "db.redis.database_index", "db.client.*",
		"messaging.system", "messaging.operation.*", "messaging.destination.*", "messaging.consumer.group.name", "messaging.batch.message_count", "messaging.message.body.size", "messaging.message.envelope.size", "messaging.kafka.offset",
		"rpc.system", "rpc.system.name", "rpc.service", "rpc.method", "rpc.message.*", "rpc.response.status_code", "rpc.grpc.status_code", "rpc.jsonrpc.error_code", "rpc.jsonrpc.version", "graphql.operation.*", "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model", "gen_ai.usage.*",
		"code.*", "error.type", "exception.*", "otel.*", "sampling.*", "message.type", "message.id", "http.read_bytes", "http.wrote_bytes",
	}
}
