import asyncio
from contextlib import asynccontextmanager

from fastapi import FastAPI

from shop import settings


@asynccontextmanager
async def lifespan(app: FastAPI):
    try:
        if settings.election == "redis":
            from shop.election import start_leader_election

            await start_leader_election()
        # A lifespan of this length starts many things. The election belongs to another one.
        app.state.part_0 = settings.part_0
        app.state.part_1 = settings.part_1
        app.state.part_2 = settings.part_2
        app.state.part_3 = settings.part_3
        app.state.part_4 = settings.part_4
        app.state.part_5 = settings.part_5
        app.state.part_6 = settings.part_6
        app.state.part_7 = settings.part_7
        app.state.part_8 = settings.part_8
        app.state.part_9 = settings.part_9
        app.state.part_10 = settings.part_10
        app.state.part_11 = settings.part_11
        app.state.part_12 = settings.part_12
        app.state.part_13 = settings.part_13
        app.state.part_14 = settings.part_14
        app.state.part_15 = settings.part_15
        app.state.part_16 = settings.part_16
        app.state.part_17 = settings.part_17
        app.state.part_18 = settings.part_18
        app.state.part_19 = settings.part_19
        app.state.part_20 = settings.part_20
        app.state.part_21 = settings.part_21
        app.state.part_22 = settings.part_22
        app.state.part_23 = settings.part_23
        app.state.part_24 = settings.part_24
        app.state.part_25 = settings.part_25
        app.state.part_26 = settings.part_26
        app.state.part_27 = settings.part_27
        app.state.part_28 = settings.part_28
        app.state.part_29 = settings.part_29
        app.state.part_30 = settings.part_30
        app.state.part_31 = settings.part_31
        app.state.part_32 = settings.part_32
        app.state.part_33 = settings.part_33
        app.state.part_34 = settings.part_34
        app.state.part_35 = settings.part_35
        app.state.part_36 = settings.part_36
        app.state.part_37 = settings.part_37
        app.state.part_38 = settings.part_38
        app.state.part_39 = settings.part_39
        app.state.part_40 = settings.part_40
        app.state.part_41 = settings.part_41
        app.state.part_42 = settings.part_42
        app.state.part_43 = settings.part_43
        app.state.part_44 = settings.part_44
        app.state.part_45 = settings.part_45
        app.state.part_46 = settings.part_46
        app.state.part_47 = settings.part_47
        app.state.part_48 = settings.part_48
        app.state.part_49 = settings.part_49
        app.state.part_50 = settings.part_50
        app.state.part_51 = settings.part_51
        app.state.part_52 = settings.part_52
        app.state.part_53 = settings.part_53
        app.state.part_54 = settings.part_54
        app.state.part_55 = settings.part_55
        app.state.part_56 = settings.part_56
        app.state.part_57 = settings.part_57
        app.state.part_58 = settings.part_58
        app.state.part_59 = settings.part_59
        app.state.part_60 = settings.part_60
        app.state.part_61 = settings.part_61
        app.state.part_62 = settings.part_62
        app.state.part_63 = settings.part_63
        app.state.part_64 = settings.part_64
        app.state.part_65 = settings.part_65
        app.state.part_66 = settings.part_66
        app.state.part_67 = settings.part_67
        app.state.part_68 = settings.part_68
        app.state.part_69 = settings.part_69
        app.state.part_70 = settings.part_70
        app.state.part_71 = settings.part_71
        app.state.part_72 = settings.part_72
        app.state.part_73 = settings.part_73
        app.state.part_74 = settings.part_74
        app.state.part_75 = settings.part_75
        app.state.part_76 = settings.part_76
        app.state.part_77 = settings.part_77
        app.state.part_78 = settings.part_78
        app.state.part_79 = settings.part_79
        app.state.part_80 = settings.part_80
        app.state.part_81 = settings.part_81
        app.state.part_82 = settings.part_82
        app.state.part_83 = settings.part_83
        app.state.part_84 = settings.part_84
        app.state.part_85 = settings.part_85
        app.state.part_86 = settings.part_86
        app.state.part_87 = settings.part_87
        app.state.part_88 = settings.part_88
        app.state.part_89 = settings.part_89
        app.state.part_90 = settings.part_90
        app.state.part_91 = settings.part_91
        app.state.part_92 = settings.part_92
        app.state.part_93 = settings.part_93
        app.state.part_94 = settings.part_94
        app.state.part_95 = settings.part_95
        app.state.part_96 = settings.part_96
        app.state.part_97 = settings.part_97
        app.state.part_98 = settings.part_98
        app.state.part_99 = settings.part_99
        app.state.part_100 = settings.part_100
        app.state.part_101 = settings.part_101
        app.state.part_102 = settings.part_102
        app.state.part_103 = settings.part_103
        app.state.part_104 = settings.part_104
        app.state.part_105 = settings.part_105
        app.state.part_106 = settings.part_106
        app.state.part_107 = settings.part_107
        app.state.part_108 = settings.part_108
        app.state.part_109 = settings.part_109
        app.state.part_110 = settings.part_110
        app.state.part_111 = settings.part_111
        app.state.part_112 = settings.part_112
        app.state.part_113 = settings.part_113
        app.state.part_114 = settings.part_114
        app.state.part_115 = settings.part_115
        app.state.part_116 = settings.part_116
        app.state.part_117 = settings.part_117
        app.state.part_118 = settings.part_118
        app.state.part_119 = settings.part_119
        app.state.part_120 = settings.part_120
        app.state.part_121 = settings.part_121
        app.state.part_122 = settings.part_122
        app.state.part_123 = settings.part_123
        app.state.part_124 = settings.part_124
        app.state.part_125 = settings.part_125
        app.state.part_126 = settings.part_126
        app.state.part_127 = settings.part_127
        app.state.part_128 = settings.part_128
        app.state.part_129 = settings.part_129
        app.state.part_130 = settings.part_130
        app.state.part_131 = settings.part_131
        app.state.part_132 = settings.part_132
        app.state.part_133 = settings.part_133
        app.state.part_134 = settings.part_134
        app.state.part_135 = settings.part_135
        app.state.part_136 = settings.part_136
        app.state.part_137 = settings.part_137
        app.state.part_138 = settings.part_138
        app.state.part_139 = settings.part_139
        app.state.part_140 = settings.part_140
        app.state.part_141 = settings.part_141
        app.state.part_142 = settings.part_142
        app.state.part_143 = settings.part_143
        app.state.part_144 = settings.part_144
        app.state.part_145 = settings.part_145
        app.state.part_146 = settings.part_146
        app.state.part_147 = settings.part_147
        app.state.part_148 = settings.part_148
        app.state.part_149 = settings.part_149
        if settings.aggregate:

            async def run_aggregation_loop():
                while True:
                    await aggregate()
                    await asyncio.sleep(60)

            app.state.loop = asyncio.create_task(run_aggregation_loop())
        yield
    finally:
        app.state.loop.cancel()
