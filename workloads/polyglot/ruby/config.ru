require_relative "ask"

run ->(env) { [200, { "Content-Type" => "text/plain" }, [ask(env["PATH_INFO"])]] }
