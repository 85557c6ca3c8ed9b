# A thread receives the requests of all connections, and a pool works for them: handover.rb MODE PORT, and
# the ports of what it asks in BACKEND and REDIS. GET /n/5 asks both about number 5. MODE says who
# asks for TCP_INFO of which connection, as Puma's pool does of its own before it works.
require "socket"

HOST = "127.0.0.1"
ELSE = 1_000_000 # numbers from here on belong to no request

class Peers
  def initialize
    @backend, @redis = %w[BACKEND REDIS].map { |name| TCPSocket.new(HOST, ENV.fetch(name)) }
  end

  def ask(n)
    @backend.write("GET /n/#{n} HTTP/1.1\r\nHost: backend\r\n\r\n")
    size = 0
    while (line = @backend.gets) != "\r\n"
      size = line.split(":")[1].to_i if line.downcase.start_with?("content-length:")
    end
    @backend.read(size)
    @redis.write("*2\r\n$3\r\nGET\r\n$#{n.to_s.size + 2}\r\nn:#{n}\r\n")
    @redis.gets
  end
end

def inquire(sock)
  sock.getsockopt(Socket::IPPROTO_TCP, Socket::TCP_INFO)
rescue IOError, SystemCallError
  # it was closed
end

MODE, PORT = ARGV
QUEUE = Queue.new
CONNECTIONS = {} # sockets and what was read of a request

def work
  peers = Peers.new
  loop do
    sock, n = QUEUE.pop
    case MODE
    when "own", "watched" then inquire(sock)
    when "others" then CONNECTIONS.keys.sample(4).each { |other| inquire(other) unless other == sock }
    end
    peers.ask(n)
    sock.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
  end
end

# While there are connections, asks for TCP_INFO of all, and calls those that the service calls.
def watch
  peers = Peers.new
  (ELSE..).each do |n|
    sleep 0.001
    connections = CONNECTIONS.keys
    connections.each { |sock| inquire(sock) }
    peers.ask(n) unless connections.empty?
  end
end

8.times { Thread.new { work } }
Thread.new { watch } if MODE == "watched" || MODE == "watched alone"

listener = TCPServer.new(HOST, PORT.to_i)
listener.listen(4096)
loop do
  ready, = IO.select([listener, *CONNECTIONS.keys])
  ready.each do |sock|
    if sock == listener
      CONNECTIONS[sock.accept] = +""
      next
    end
    begin
      CONNECTIONS[sock] << sock.read_nonblock(65536)
    rescue IOError, SystemCallError
      CONNECTIONS.delete(sock)
      sock.close
      next
    end
    next unless CONNECTIONS[sock].end_with?("\r\n\r\n")
    QUEUE << [sock, CONNECTIONS[sock].split[1].delete_prefix("/n/").to_i]
    CONNECTIONS[sock] = +""
  end
end
