import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.pool.AbstractChannelPoolHandler;
import io.netty.channel.pool.FixedChannelPool;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpRequest;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpClientCodec;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.util.AttributeKey;
import io.netty.util.concurrent.Future;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.function.Supplier;

/**
 * NettyService KIND BACKEND: as Service, on two event loops; requests wait for one of four connections: "queue", in a queue
 * of its own, from which who has answered takes another's; or "pool", in Netty's.
 */
public class NettyService {
  record Job(ChannelHandlerContext client, String number) {}

  static final AttributeKey<Job> JOB = AttributeKey.valueOf("job");
  static final Deque<Channel> idle = new ArrayDeque<>();
  static final Deque<Job> jobs = new ArrayDeque<>();

  static FixedChannelPool pool; // null: the queue

  static void ask(Channel c, Job job) {
    c.attr(JOB).set(job);
    var q = new DefaultFullHttpRequest(HttpVersion.HTTP_1_1, HttpMethod.GET, "/b/" + job.number);
    q.headers().set("host", "x");
    c.writeAndFlush(q);
  }

  static void pump() {
    while (true) {
      Channel c;
      Job job;
      synchronized (jobs) {
        if (idle.isEmpty() || jobs.isEmpty()) return;
        c = idle.remove();
        job = jobs.remove();
      }
      ask(c, job);
    }
  }

  static class Answers extends SimpleChannelInboundHandler<FullHttpResponse> {
    @Override protected void channelRead0(ChannelHandlerContext c, FullHttpResponse response) {
      Job job = c.channel().attr(JOB).get();
      ByteBuf text = Unpooled.copiedBuffer("ok " + job.number, StandardCharsets.UTF_8);
      var answer = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK, text);
      answer.headers().set("content-length", text.readableBytes());
      job.client.writeAndFlush(answer);
      if (pool != null) {
        pool.release(c.channel());
        return;
      }
      synchronized (jobs) {
        idle.add(c.channel());
      }
      pump();
    }
  }

  static class Requests extends SimpleChannelInboundHandler<FullHttpRequest> {
    @Override protected void channelRead0(ChannelHandlerContext c, FullHttpRequest request) {
      String[] path = request.uri().split("/");
      if (path.length < 3) return;
      c.executor().execute(() -> {
        if (pool != null) {
          pool.acquire().addListener((Future<Channel> f) -> ask(f.getNow(), new Job(c, path[2])));
          return;
        }
        synchronized (jobs) {
          jobs.add(new Job(c, path[2]));
        }
        pump();
      });
    }
  }

  static ChannelInitializer<SocketChannel> pipeline(Supplier<ChannelHandler[]> handlers) {
    return new ChannelInitializer<>() {
      @Override protected void initChannel(SocketChannel channel) {
        channel.pipeline().addLast(handlers.get());
      }
    };
  }

  public static void main(String[] args) throws Exception {
    var loops = new NioEventLoopGroup(2);
    var client = new Bootstrap().group(loops).channel(NioSocketChannel.class).remoteAddress("127.0.0.1", Integer.parseInt(args[1]));
    Supplier<ChannelHandler[]> handlers = () -> new ChannelHandler[] {new HttpClientCodec(), new HttpObjectAggregator(65536), new Answers()};
    if (args[0].equals("pool")) {
      pool = new FixedChannelPool(client, new AbstractChannelPoolHandler() {
        @Override public void channelCreated(Channel channel) {
          channel.pipeline().addLast(handlers.get());
        }
      }, 4);
    } else {
      client.handler(pipeline(handlers));
      for (int i = 0; i < 4; i++) idle.add(client.connect().sync().channel());
    }
    var server = new ServerBootstrap().group(loops).channel(NioServerSocketChannel.class)
        .childHandler(pipeline(() -> new ChannelHandler[] {new HttpServerCodec(), new HttpObjectAggregator(65536), new Requests()}));
    System.out.println(((InetSocketAddress) server.bind("127.0.0.1", 0).sync().channel().localAddress()).getPort());
  }
}
