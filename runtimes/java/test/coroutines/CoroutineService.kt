import java.util.concurrent.Executors
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.sync.Semaphore
import kotlinx.coroutines.sync.withPermit
import kotlinx.coroutines.withContext

/** CoroutineServiceKt KIND BACKEND: "requests" have coroutines that hand permits to each other; or one coroutine works for all. */
fun main(args: Array<String>) {
    Service.backend = "http://127.0.0.1:" + args[1] + "/b/"
    System.setProperty("http.maxConnections", "64")
    val pool = Executors.newFixedThreadPool(16)
    val all = CoroutineScope(Dispatchers.Default)
    if (args[0] == "worker") {
        val jobs = Channel<Pair<Int, Service.Answer>>(64)
        all.launch {
            for ((n, answer) in jobs) {
                Service.call(n)
                answer.send(null)
            }
        }
        Service.serve(pool) { n, answer -> runBlocking { jobs.send(Pair(n, answer)) } }
        return
    }
    val two = Semaphore(2)
    Service.serve(pool) { n, answer ->
        runBlocking {
            val other = async(Dispatchers.IO) { Service.call(n) }
            delay(1)
            withContext(Dispatchers.Default) { Service.call(n) }
            other.await()
            two.withPermit { withContext(Dispatchers.IO) { Service.call(n) } }
            Service.call(n)
        }
        all.launch {
            delay(1)
            Service.call(n)
            answer.send(null)
        }
    }
}
