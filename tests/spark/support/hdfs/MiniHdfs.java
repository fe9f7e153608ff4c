import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.server.datanode.DataNodeFaultInjector;

/** A name node and a data node on 127.0.0.1, which obey one command a line and end with their input. */
public final class MiniHdfs {
    public static void main(final String[] arguments) throws Exception {
        final Configuration settings = new Configuration();
        settings.set("dfs.namenode.http-address", "127.0.0.1:0");
        settings.set("dfs.namenode.fs-limits.min-block-size", "1024");
        settings.set("dfs.blocksize", "1048576");
        // The name node refuses to close a file before it has the data node's report of the last
        // block, and hdfs-native repeats the request only after 0.5 s. On a real cluster, replicas
        // delay the client more than this report takes.
        DataNodeFaultInjector.set(new DataNodeFaultInjector() {
            @Override
            public void delayAckLastPacket() {
                try {
                    Thread.sleep(20);
                } catch (final InterruptedException end) {
                    Thread.currentThread().interrupt();
                }
            }
        });
        final MiniDFSCluster cluster =
            new MiniDFSCluster.Builder(settings, new File(arguments[0])).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("port " + cluster.getNameNodePort());
        final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            final String[] words = line.split(" ");
            if (words[0].equals("quota")) {
                final DistributedFileSystem files = cluster.getFileSystem();
                files.mkdirs(new Path(words[1]));
                files.setQuota(new Path(words[1]), Long.MAX_VALUE - 1, Long.parseLong(words[2]));
            } else if (words[0].equals("safe")) {
                cluster.getNameNodeRpc().setSafeMode(
                    words[1].equals("on")
                        ? HdfsConstants.SafeModeAction.SAFEMODE_ENTER
                        : HdfsConstants.SafeModeAction.SAFEMODE_LEAVE,
                    false);
            } else if (words[0].equals("namenode")) {
                if (words[1].equals("off")) {
                    cluster.shutdownNameNode(0);
                } else {
                    cluster.restartNameNode(0, true);
                }
            }
            System.out.println("done");
        }
        cluster.shutdown(true);
    }
}
