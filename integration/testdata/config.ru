# GET /n/5 asks the backend and redis about number 5; every thread keeps its own connections.
require "net/http"
require "socket"

run lambda { |env|
  env["rack.input"].read
  n = File.basename(env["PATH_INFO"])
  thread = Thread.current
  thread[:backend] ||= Net::HTTP.start("127.0.0.1", ENV.fetch("BACKEND").to_i)
  thread[:backend].get("/n/#{n}")
  thread[:redis] ||= TCPSocket.new("127.0.0.1", ENV.fetch("REDIS").to_i)
  thread[:redis].write("*2\r\n$3\r\nGET\r\n$#{n.size + 2}\r\nn:#{n}\r\n")
  thread[:redis].gets
  [200, { "Content-Type" => "text/plain" }, ["hello\n"]]
}
