# WEBrick: a thread for each connection.
require "webrick"
require_relative "ask"

server = WEBrick::HTTPServer.new(BindAddress: HOST, Port: ENV.fetch("PORT").to_i, MaxClients: 1024, RequestTimeout: 300,
                                 AccessLog: [], Logger: WEBrick::Log.new($stderr, WEBrick::Log::WARN))
server.mount_proc("/n") do |request, response|
  response.content_type = "text/plain"
  response.body = ask(request.path)
end
trap("TERM") { server.shutdown }
server.start
