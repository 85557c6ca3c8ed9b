# Asks the backend by Net::HTTP and redis by its gem; every thread keeps its own connections.
require "net/http"
require "redis"

HOST = ENV.fetch("HOST", "127.0.0.1")

def ask(path)
  n = File.basename(path)
  thread = Thread.current
  thread[:backend] ||= Net::HTTP.start(HOST, ENV.fetch("BACKEND").to_i, nil).tap { |http| http.keep_alive_timeout = 300 }
  thread[:redis] ||= Redis.new(host: HOST, port: ENV.fetch("REDIS").to_i)
  "#{thread[:backend].get("/n/#{n}").body} #{thread[:redis].call("GET", "n:#{n}")}"
end
